package rocketmq4

import "time"

// LookAgain sets how old the number of queues may be for Append.
func (o Options) LookAgain(d time.Duration) Options {
	o.lookAgain = d
	return o
}

// UnknownWait sets how long a broker is asked again that tells a maximum of 0
// that cannot be.
func (o Options) UnknownWait(d time.Duration) Options {
	o.unknownWait = d
	return o
}

// HashOfKey is hashOfKey.
var HashOfKey = hashOfKey
