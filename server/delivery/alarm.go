package delivery

// alarm is something to do at a time: the ack deadline of deliveries of a
// batch, or the due time of a retry.
type alarm struct {
	at    int64  // ns since the machine was made
	pos   int    // place in the heap + 1; 0: not in it
	mask  uint64 // of batch
	batch *batch
	rec   *rec
}

// alarms is a heap of alarms by time. An alarm knows its place, so that it can
// leave early: nearly every ack deadline does.
type alarms struct {
	heap []alarmEntry
}

// alarmEntry repeats the time so that comparing does not follow the pointer.
type alarmEntry struct {
	at int64
	a  *alarm
}

// set puts a at a time, whether it was in the heap or not.
func (h *alarms) set(a *alarm, at int64) {
	a.at = at
	if a.pos == 0 {
		h.heap = append(h.heap, alarmEntry{})
		a.pos = len(h.heap)
	}
	i := a.pos - 1
	h.heap[i] = alarmEntry{at, a}
	if !h.up(i) {
		h.down(i)
	}
}

// drop takes a out; it need not be in.
func (h *alarms) drop(a *alarm) {
	if a.pos == 0 {
		return
	}
	i, last := a.pos-1, len(h.heap)-1
	a.pos = 0
	e := h.heap[last]
	h.heap[last] = alarmEntry{}
	h.heap = h.heap[:last]
	if i == last {
		return
	}
	h.put(i, e)
	if !h.up(i) {
		h.down(i)
	}
}

// first is the earliest alarm; nil: none.
func (h *alarms) first() *alarm {
	if len(h.heap) == 0 {
		return nil
	}
	return h.heap[0].a
}

func (h *alarms) put(i int, e alarmEntry) {
	h.heap[i] = e
	e.a.pos = i + 1
}

// up moves entry i towards the root and tells whether it moved.
func (h *alarms) up(i int) bool {
	e, from := h.heap[i], i
	for i > 0 {
		parent := (i - 1) / 4
		if h.heap[parent].at <= e.at {
			break
		}
		h.put(i, h.heap[parent])
		i = parent
	}
	if i == from {
		return false
	}
	h.put(i, e)
	return true
}

func (h *alarms) down(i int) {
	e := h.heap[i]
	for {
		child := h.least(4*i + 1)
		if child < 0 || e.at <= h.heap[child].at {
			break
		}
		h.put(i, h.heap[child])
		i = child
	}
	h.put(i, e)
}

// least is the earliest of the four siblings from i on; -1: none.
func (h *alarms) least(i int) int {
	if i >= len(h.heap) {
		return -1
	}
	best := i
	for j := i + 1; j < min(i+4, len(h.heap)); j++ {
		if h.heap[j].at < h.heap[best].at {
			best = j
		}
	}
	return best
}
