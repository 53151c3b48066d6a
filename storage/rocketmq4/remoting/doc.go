// Package remoting speaks RocketMQ's remoting protocol: what a log needs of a
// name server and of brokers, 4.x and 5.x, and of proxies that pass requests on.
//
// A Client is a set of connections, one to each address, made when first
// needed and again after they broke. Requests share a connection and do not
// wait for one another; each ends with its context, or after RequestTimeout
// beside what it asks the broker to wait. Close waits for every goroutine.
//
// What it offers:
//
//   - any request: Call at an address, CallNameServer at the name server in use;
//   - routes and topics: Route, Topics, Cluster, TopicExists, CreateTopic,
//     DeleteTopicAt, DeleteTopicAtNameServers;
//   - reading: Pull with long polling, MinOffset, MaxOffset, SearchOffset,
//     EarliestTime, DecodeMessages;
//   - writing: Send, SendBatch;
//   - groups: CreateGroup, Groups, DeleteGroup, GroupOffset, ResetGroup,
//     GroupStats.
//
// A lite topic of RocketMQ 5 is read with Pull of the topic that LiteTopic
// names, queue 0, at the brokers of its parent's route.
//
// Offsets are the queue offsets of RocketMQ: the minimum is the lowest one
// held, the maximum the next one to be written. A broker answers 0 for a queue
// that it does not know, so 0 may mean "not known".
//
// Errors are an *Error for what a peer answered, ErrUnreachable where it gave
// no answer, ErrMalformed for what cannot be read, ErrClosed, ctx.Err().
package remoting

import (
	"errors"
	"fmt"
)

// Errors, to be matched with errors.Is.
var (
	// ErrUnreachable: no connection, or no answer in time. A request may have
	// been carried out all the same.
	ErrUnreachable = errors.New("no answer")
	// ErrNotSent goes with ErrUnreachable where the request has certainly not
	// been carried out: it never left.
	ErrNotSent = errors.New("the request was not sent")
	// ErrMalformed: bytes that are not of the protocol, or over a limit.
	ErrMalformed = errors.New("malformed remoting data")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("remoting client is closed")
	// ErrInvalid: an option or argument is outside what is allowed.
	ErrInvalid = errors.New("invalid argument")
)

// Error is what a peer answered instead of success.
type Error struct {
	// Op is what was asked, Addr who was.
	Op, Addr string
	// Code is the response code, such as CodeTopicNotExist.
	Code int
	// Remark is the peer's own text.
	Remark string
}

// Error names request, peer, code and remark.
func (e *Error) Error() string {
	return fmt.Sprintf("%s at %s: code %d: %s", e.Op, e.Addr, e.Code, firstLine(e.Remark))
}

// firstLine leaves out the stack traces that brokers send.
func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' || r == '\r' || i > 500 {
			return s[:i]
		}
	}
	return s
}

// IsCode tells whether err is an *Error with one of these codes.
func IsCode(err error, codes ...int) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}

// LiteTopic is the topic in which a broker of RocketMQ 5 keeps a lite topic;
// it has the queue 0 only.
func LiteTopic(parent, lite string) string { return "%LMQ%$" + parent + "$" + lite }
