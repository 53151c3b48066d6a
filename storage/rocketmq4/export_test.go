package rocketmq4

import (
	"context"
	"net"
	"time"
)

// Dial sets how connections are opened.
func (o Options) Dial(f func(ctx context.Context, network, addr string) (net.Conn, error)) Options {
	o.dial = f
	return o
}

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
