package kafka

import "time"

// LookAgain sets how old the number of partitions may be for Append.
func (o Options) LookAgain(d time.Duration) Options {
	o.lookAgain = d
	return o
}

// Ahead is how many bytes are fetched, or being fetched, and not yet asked for.
func (l *Log) Ahead() int64 { return l.states.ahead.Load() }
