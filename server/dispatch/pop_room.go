package dispatch

import "github.com/ackmesh/ackmesh/storage"

// room is how many more records the streams take than are here for them. Where
// it is none the part is woken when there is some.
func (f *feed) room(p *part) int {
	if n := f.free(p); n > 0 {
		return n
	}
	for _, a := range p.atts {
		a.b.s.starve(a.b, p)
	}
	return max(0, f.free(p)) // some may have come before the part was to be woken
}

// free is how many more records the streams take, by number and by about what they
// weigh; below 0: fewer than are here.
func (f *feed) free(p *part) int {
	n, bytes := -len(f.queue)-p.m.Pressing(), -f.queueB
	for _, a := range p.atts {
		slots, room := a.b.s.vacancy(a.b)
		n, bytes = n+slots, bytes+room
	}
	switch {
	case n <= 0:
		return n
	case bytes <= 0:
		return 0
	case f.mean == 0:
		return min(n, popFirst)
	}
	return int(min(int64(n), max(1, bytes/f.mean)))
}

// vacancy is how many records, and bytes, the binding may take now.
func (s *Stream) vacancy(b *binding) (slots int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slots = s.freeLocked(b); slots > 0 {
		bytes = s.cfg.MaxBytes - s.bytes
	}
	return slots, bytes
}

// weigh learns what records take from those that were popped.
func (f *feed) weigh(b *storage.Batch) {
	n, sum := int64(len(b.Records)), int64(0)
	for i := range b.Records {
		sum += int64(len(b.Records[i].Frame))
	}
	switch {
	case n == 0:
	case f.mean == 0:
		f.mean = max(sum/n, 1)
	default:
		f.mean = max((f.mean+sum/n)/2, 1)
	}
}

// dequeue takes the first record off what was not offered yet.
func (f *feed) dequeue() {
	f.queueB -= int64(f.queue[0].size)
	f.queue[0] = nil
	f.queue = f.queue[1:]
}

// starve has p woken when the binding has more room, or enough where it lacks some.
func (s *Stream) starve(b *binding, p *part) {
	s.mu.Lock()
	if !b.gone && !s.ending && !b.lacksRoom(p) {
		b.starve(p)
	}
	s.mu.Unlock()
}
