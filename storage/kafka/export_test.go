package kafka

import "time"

// LookAgain sets how old the number of partitions may be for Append.
func (o Options) LookAgain(d time.Duration) Options {
	o.lookAgain = d
	return o
}
