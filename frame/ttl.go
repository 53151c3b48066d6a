package frame

import "math"

// MaxTTL is the longest time to live, in milliseconds: about 292 years, the most
// that a time.Duration can hold.
const MaxTTL = math.MaxInt64 / 1_000_000

// ParseTTL reads the value of AttrTTL: a decimal number of milliseconds from 0
// to MaxTTL, digits only. ok is false for anything else, also for the empty
// value. 0 means that the event is expired as soon as it is appended.
func ParseTTL[T string | []byte](value T) (ms int64, ok bool) {
	if len(value) == 0 {
		return 0, false
	}
	for i := 0; i < len(value); i++ {
		digit := int64(value[i]) - '0'
		if digit < 0 || digit > 9 || ms > (MaxTTL-digit)/10 {
			return 0, false
		}
		ms = ms*10 + digit
	}
	return ms, true
}
