package ratelimit

import (
	"cmp"
	"fmt"
	"math"

	"github.com/ackmesh/ackmesh/storage"
)

// Direction is what a rule bounds, with the numbers of the wire.
type Direction uint8

// The directions.
const (
	Publish Direction = 1 + iota
	Deliver
)

// String is the direction's name for people.
func (d Direction) String() string {
	switch d {
	case Publish:
		return "publish"
	case Deliver:
		return "deliver"
	}
	return fmt.Sprintf("direction %d", uint8(d))
}

// Scope is what a rule holds for. Two rules never have the same.
type Scope struct {
	Direction Direction
	// Topic is the topic; empty: all topics together.
	Topic string
	// Client is a client id where delivery is bounded, and the name of a
	// publisher's token where publishing is; empty: all together.
	Client string
}

// String names the scope for people.
func (s Scope) String() string {
	of := func(kind, all, name string) string {
		if name == "" {
			return all
		}
		return fmt.Sprintf("%s %q", kind, name)
	}
	who := of("client", "all clients together", s.Client)
	if s.Direction == Publish {
		who = of("token", "all publishers together", s.Client)
	}
	return of("topic", "all topics together", s.Topic) + ", " + who
}

// compare orders scopes by direction, topic and client.
func (s Scope) compare(t Scope) int {
	return cmp.Or(cmp.Compare(s.Direction, t.Direction), cmp.Compare(s.Topic, t.Topic), cmp.Compare(s.Client, t.Client))
}

// Rule bounds a rate.
type Rule struct {
	Scope
	// Events and Bytes are how many a second; 0: no bound. Bytes are those of
	// events as they are on the wire.
	Events, Bytes float64
}

// Bounds of the rates, beside 0.
const (
	MinEvents = 0.01
	MinBytes  = 1
	MaxRate   = 1e12
)

// none tells whether the rule bounds nothing: it ends the one that was.
func (r Rule) none() bool { return r.Events == 0 && r.Bytes == 0 }

// check returns nil for a rule that can be kept, else storage.ErrInvalid.
func (r Rule) check() error {
	if r.Direction != Publish && r.Direction != Deliver {
		return fmt.Errorf("direction is not set: give PUBLISH or DELIVER: %w", storage.ErrInvalid)
	}
	if r.Topic != "" {
		if err := storage.CheckName("topic", r.Topic); err != nil {
			return err
		}
	}
	if r.Client != "" {
		if err := storage.CheckName("client_id", r.Client); err != nil {
			return err
		}
	}
	if err := checkRate("events_per_second", r.Events, MinEvents); err != nil {
		return err
	}
	return checkRate("bytes_per_second", r.Bytes, MinBytes)
}

func checkRate(field string, v, low float64) error {
	if v == 0 || v >= low && v <= MaxRate && !math.IsNaN(v) {
		return nil
	}
	return fmt.Errorf("%s is %v: 0 (no bound), or %v to %v is allowed: %w", field, v, low, float64(MaxRate), storage.ErrInvalid)
}
