package dispatch

const maxQueued = 512 << 10

func (d *Dispatcher) queueRoom() int {
	limit, used := d.cfg.MemoryLimit/2, d.Metrics.QueuedBytes.Load()
	if used < limit/2 {
		return maxQueued
	}
	d.Metrics.MemoryPauses.Add(1)
	return max(1, int(maxQueued*max(0, limit-used)/(limit/2)))
}

func (s *Stream) max(b *binding) int {
	if b.limit >= 0 {
		return b.limit
	}
	return s.cfg.MaxInFlight
}

func (s *Stream) free(b *binding) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freeLocked(b)
}

func (s *Stream) freeLocked(b *binding) int {
	if s.ending || b.paused || b.gone || s.bytes >= s.cfg.MaxBytes || (s.queuedB > 0 && s.queuedB >= s.d.queueRoom()) {
		return 0
	}
	return max(0, s.max(b)-b.used)
}

func (s *Stream) reserve(b *binding, p *part, n int, bytes int64) (slots int, room int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.freeLocked(b)
	if free == 0 || !s.ids.ready() {
		if !b.gone && !s.ending {
			addPart(&b.starved, p)
		}
		return 0, 0
	}
	n = min(n, free, max(1, s.max(b)/b.share))
	bytes = min(bytes, s.cfg.MaxBytes-s.bytes)
	b.used += n
	s.bytes += bytes
	return n, bytes
}

func (s *Stream) widen(b *binding, p *part, reserved, need int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes-reserved+need > s.cfg.MaxBytes && s.bytes > reserved {
		addPart(&b.starved, p)
		return false
	}
	s.bytes += need - reserved
	return true
}

type batch struct {
	run   *[]byte
	idPos []int32 // where the ids go
	epoch uint64
}

func (s *Stream) send(b *binding, p *part, slots int, room int64, bt batch) (first uint64, ok bool) {
	n, bytes := len(bt.idPos), int64(len(*bt.run))
	s.mu.Lock()
	if s.ending || b.gone {
		s.mu.Unlock()
		s.giveBack(b, p, slots, room)
		return 0, false
	}
	b.used -= slots - n
	s.bytes -= room - bytes
	first = s.ids.take(n)
	patchIDs(*bt.run, bt.idPos, first)
	held := ^uint64(0) >> (64 - n)
	s.table = append(s.table, &outBatch{first: first, n: n, mask: held, held: held, bytes: bytes, epoch: bt.epoch, b: b, p: p})
	s.queue = append(s.queue, queued{run: bt.run, p: p, first: first})
	s.queuedB += int(bytes)
	s.mu.Unlock()
	s.d.Metrics.QueuedBytes.Add(bytes)
	s.signal()
	return first, true
}

func (s *Stream) giveBack(b *binding, p *part, slots int, room int64) {
	s.mu.Lock()
	b.used -= slots
	s.bytes -= room
	starved := s.takeStarved(b)
	s.mu.Unlock()
	wakeAll(starved, p)
}

func (s *Stream) takeStarved(b *binding) []*part {
	if s.ending || s.bytes >= s.cfg.MaxBytes || (s.queuedB > 0 && s.queuedB >= s.d.queueRoom()) {
		return nil
	}
	if b != nil && len(s.bindings) == 1 {
		list := b.starved
		b.starved = nil
		return list
	}
	var list []*part
	for _, b := range s.bindings {
		list = append(list, b.starved...)
		b.starved = nil
	}
	return list
}

func addPart(list *[]*part, p *part) {
	for _, q := range *list {
		if q == p {
			return
		}
	}
	*list = append(*list, p)
}

func wakeAll(list []*part, self *part) {
	for _, p := range list {
		if p != self {
			p.l.post(event{kind: evCredit, p: p})
		}
	}
}

func (s *Stream) SetWindow(records int, bytes int64) {
	s.mu.Lock()
	if records >= 0 {
		s.cfg.MaxInFlight = records
	}
	if bytes >= 0 {
		s.cfg.MaxBytes = bytes
	}
	starved := s.takeStarved(nil)
	s.mu.Unlock()
	wakeAll(starved, nil)
}
