package main

import (
	"fmt"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// boundsHelp is what the help of commands that show bounds says of unknown ones.
const boundsHelp = `Where the log could not tell the bounds of a partition, ? is shown, and
the reason on standard error; - where it has no such partition any more. The rest
is as it is, and the exit status 0.`

// bounds are those of a partition, as far as they are known.
type bounds interface {
	GetBounds() ackmeshv1.BoundsState
	GetBoundsError() string
}

// known is a number that rests on bounds, or what is shown in its place. Servers
// that do not say whether bounds are known have them.
func known(b bounds, n int64) string {
	switch b.GetBounds() {
	case ackmeshv1.BoundsState_BOUNDS_STATE_UNKNOWN:
		return "?"
	case ackmeshv1.BoundsState_BOUNDS_STATE_ABSENT:
		return "-"
	}
	return fmt.Sprint(n)
}

// unknowns collects why bounds are not known, by topic.
type unknowns struct {
	topics []string
	of     map[string]*unknown
}

type unknown struct {
	partitions map[string]bool
	why        string // the first reason
}

// note adds the partition of a topic, if its bounds are not known.
func (u *unknowns) note(topic, partition string, b bounds) {
	if b.GetBounds() != ackmeshv1.BoundsState_BOUNDS_STATE_UNKNOWN {
		return
	}
	if u.of == nil {
		u.of = map[string]*unknown{}
	}
	if u.of[topic] == nil {
		u.topics = append(u.topics, topic)
		u.of[topic] = &unknown{partitions: map[string]bool{}, why: b.GetBoundsError()}
	}
	u.of[topic].partitions[partition] = true
}

// tell writes a line for each topic.
func (u *unknowns) tell(a *app) error {
	for _, topic := range u.topics {
		k := u.of[topic]
		if _, err := fmt.Fprintf(a.errOut, "ackmesh: topic %q: bounds not known (partitions: %d): %s\n", topic, len(k.partitions), k.why); err != nil {
			return err
		}
	}
	return nil
}
