package delivery

// Pick chooses the stream that gets the next batch of a share: the one with
// the most free slots, among equals the first from cursor on, so that a caller
// that passes the last choice + 1 goes round. It returns -1 when none has a
// free slot. cursor may be any number.
func Pick(free []int, cursor int) int {
	best := -1
	n := len(free)
	if n == 0 {
		return -1
	}
	cursor = ((cursor % n) + n) % n
	for k := range n {
		i := (cursor + k) % n
		if free[i] > 0 && (best < 0 || free[i] > free[best]) {
			best = i
		}
	}
	return best
}
