package load

import "context"

// Driver reaches one system. Its methods are called from one goroutine at a
// time; what they return is used as told there.
type Driver interface {
	// MakeTopic makes an empty topic with the system's own defaults.
	MakeTopic(ctx context.Context, topic string) error
	// Connect opens a connection of its own for a client of that name.
	Connect(ctx context.Context, name string) (Client, error)
	// Unfinished is how many events of a topic the subscriber still has to
	// finish, as far as the server durably knows. Only for subscribers made with
	// From = Beginning.
	Unfinished(ctx context.Context, topic string, sub Sub) (int64, error)
}

// Client is one connection. Its methods may be called concurrently.
type Client interface {
	// Publish takes an event, which it does not keep, and calls done once with
	// its fate, from any goroutine. It blocks while the system's own default
	// window of unanswered events is full.
	Publish(ctx context.Context, topic string, e *Event, done func(error)) error
	// Subscribe returns once the server has accepted the subscription. It calls
	// handle for each event, one at a time, and acks the event when handle
	// returns.
	Subscribe(ctx context.Context, topic string, sub Sub, handle func(*Message)) (Subscription, error)
	// Close ends the connection and waits for its goroutines.
	Close() error
}

// Subscription is a subscription that stands.
type Subscription interface {
	// Stop takes no more events and returns when the server has confirmed every
	// ack, where the system confirms them.
	Stop(ctx context.Context) error
}

// Sub says who subscribes: all subscriptions of one Share divide the events,
// those of different Names without a Share get each.
type Sub struct {
	Name, Share string
	// Beginning begins with the oldest event instead of behind the newest.
	Beginning bool
}

// Attributes is how many attributes an event has.
const Attributes = 8

// Event is an event to publish.
type Event struct {
	// Attrs are name and value; the first is the event's id.
	Attrs [Attributes][2]string
	Data  []byte
}

// Message is a received event; it and what it returns are valid until the
// handler returns.
type Message struct {
	Data []byte
	// Attr returns the value of an attribute, empty where there is none.
	Attr func(name string) string
}
