package dispatch

import "time"

// The records in memory, of all partitions together, are to stay within half of
// MemoryLimit; the other half is for what is encoded. Above it nobody reads far
// ahead, windows shrink to the chunk that is in use, and partitions that have
// nothing to send now give theirs up: whoever needs it again reads it again. At
// the whole limit nothing more is read until there is less.

// windowChunks is how many chunks a window holds at least: there are that many
// places that subscribers can be at without pushing each other's records out.
const windowChunks = 16

// squeezeEvery is the least time between two looks for memory.
const squeezeEvery = 50 * time.Millisecond

// memoryShort tells whether the records in memory take half of what is allowed.
func (d *Dispatcher) memoryShort() bool {
	return d.Metrics.WindowBytes.Load() > d.cfg.MemoryLimit/2
}

// memoryFull tells whether they would take all of it with another chunk, together
// with what is encoded.
func (d *Dispatcher) memoryFull() bool { return d.over(d.Metrics.WindowBytes.Load() + pollBytes) }

// over tells whether records of so many bytes are too much.
func (d *Dispatcher) over(bytes int64) bool {
	return bytes+d.Metrics.QueuedBytes.Load() > d.cfg.MemoryLimit
}

// admit counts a chunk that was read, unless there is no memory for it: many
// partitions may have begun to read while there was. One that is larger than
// others, with a large record, is always let in: it would never get its turn.
func (d *Dispatcher) admit(c *chunk) bool {
	size := int64(c.size())
	for {
		now := d.Metrics.WindowBytes.Load()
		if now > 0 && size <= pollBytes && d.over(now+size) {
			return false
		}
		if d.Metrics.WindowBytes.CompareAndSwap(now, now+size) {
			return true
		}
	}
}

// readBytes is how much one read of the log returns at most.
func (d *Dispatcher) readBytes() int {
	n := min(pollBytes, d.cfg.WindowBytes/windowChunks)
	if d.memoryShort() {
		return min(n, batchBuffer)
	}
	return n
}

// aheadChunks is how many chunks a partition reads ahead: fewer when memory is
// short.
func (d *Dispatcher) aheadChunks() int {
	if d.memoryShort() {
		return 1
	}
	return aheadChunks
}

// windowRoom is how large the window of one partition may be.
func (d *Dispatcher) windowRoom() int {
	if d.memoryShort() {
		return 0 // the chunk that is in use stays
	}
	return d.cfg.WindowBytes
}

// squeeze asks all partitions to give up what they do not use now, unless that
// was done a moment ago.
func (d *Dispatcher) squeeze(now time.Time) {
	at, last := int64(now.Sub(d.start)), d.squeezed.Load()
	if last != 0 && at-last < int64(squeezeEvery) || !d.squeezed.CompareAndSwap(last, max(at, 1)) {
		return
	}
	for _, l := range d.allLoops() {
		l.post(event{kind: evCall, call: l.giveUp})
	}
}

// giveUp drops the window of a partition that has nothing to send now.
func (l *loop) giveUp() {
	if len(l.ready) == 0 && l.d.memoryShort() {
		l.cache.clear(l.d.freeChunk)
	}
}

// tidy keeps the window small while memory is short.
func (l *loop) tidy() {
	if len(l.cache.chunks) == 0 || !l.d.memoryShort() {
		return
	}
	l.cache.evict(l.rearmost(), 0, l.d.freeChunk)
	l.d.squeeze(time.Now())
}

// mustWait tells whether a read must wait for memory; then it is asked for again.
func (l *loop) mustWait() bool {
	if !l.d.memoryFull() {
		return false
	}
	l.shortOfMemory()
	return true
}

// shortOfMemory has the partition read on when others had time to give theirs up.
func (l *loop) shortOfMemory() {
	now := time.Now()
	l.d.Metrics.MemoryPauses.Add(1)
	l.d.squeeze(now)
	l.holdReads(false, now.Add(readRetry))
}
