package tracecheck

import "fmt"

// Cut is what one Down cut off: it was sent before and never answered.
type Cut struct {
	At                    int // index of the Down
	How                   How
	Acks, Publishes, Open int
}

// String is for messages.
func (c Cut) String() string {
	return fmt.Sprintf("event %d: %d acks, %d publishes and %d opens cut off", c.At+1, c.Acks, c.Publishes, c.Open)
}

// Cuts are those of all Downs of a trace.
func Cuts(t *Trace) []Cut {
	c := cutter{acks: map[uint64]int{}, opens: map[int32]int{}, publishes: map[uint64]int{}}
	for i := range t.Events {
		c.take(i, &t.Events[i])
	}
	for _, by := range c.acks {
		c.count(by, func(c *Cut) { c.Acks++ })
	}
	for _, by := range c.opens {
		c.count(by, func(c *Cut) { c.Open++ })
	}
	return c.cuts
}

// cutter keeps, of what is not answered, after how many Downs it was sent: the
// next one cut it off, if there was one.
type cutter struct {
	cuts      []Cut
	acks      map[uint64]int
	opens     map[int32]int
	publishes map[uint64]int
}

func (c *cutter) take(i int, e *Event) {
	switch e.Kind {
	case Down:
		c.cuts = append(c.cuts, Cut{At: i, How: e.Status})
	case Ack:
		c.acks[e.Delivery] = len(c.cuts)
	case Answer:
		delete(c.acks, e.Delivery)
	case Open:
		c.opens[e.Stream] = len(c.cuts)
	case Opened:
		delete(c.opens, e.Stream)
	case Publish:
		c.publishes[e.ID] = len(c.cuts)
	case Published:
		delete(c.publishes, e.ID)
	case Unpublished:
		if by, ok := c.publishes[e.ID]; ok {
			delete(c.publishes, e.ID)
			c.count(by, func(c *Cut) { c.Publishes++ })
		}
	}
}

func (c *cutter) count(by int, add func(*Cut)) {
	if by < len(c.cuts) {
		add(&c.cuts[by])
	}
}
