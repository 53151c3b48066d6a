package tracecheck

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/ackmesh/ackmesh/offset"
)

// A trace as text has an event a line; # begins a comment line. Names are
// escaped as in a URL's query.
//
//	attempts MAX                       Trace.MaxAttempts
//	publish ID
//	published ID PARTITION OFFSET
//	unpublished ID
//	open STREAM SUBSCRIBER WINDOW
//	opened STREAM POSITION...          PARTITION:NEXT@EPOCH, then +FIRST-LAST
//	positions STREAM POSITION...       for each range that is finished ahead
//	delivered STREAM DELIVERY PARTITION OFFSET ATTEMPT EPOCH ID
//	ack STREAM DELIVERY
//	nack STREAM DELIVERY
//	answer STREAM DELIVERY durable|retry|unknown|stale|fenced
//	closed STREAM
//	down killed|powerlost|stopped
//	up
//	dead SUBSCRIBER PARTITION OFFSET
//	brokerack SUBSCRIBER PARTITION OFFSET
var kinds = [...]string{
	Publish: "publish", Published: "published", Unpublished: "unpublished", Open: "open", Opened: "opened",
	Positions: "positions", Delivered: "delivered", Ack: "ack", Nack: "nack", Answer: "answer",
	Closed: "closed", Down: "down", Up: "up", Dead: "dead", BrokerAck: "brokerack",
}

var (
	statuses = [...]string{Durable: "durable", Retry: "retry", Unknown: "unknown", Stale: "stale", Fenced: "fenced"}
	hows     = [...]string{Killed: "killed", PowerLost: "powerlost", Stopped: "stopped"}
)

// word is the name of a number, or the number.
func word[T ~uint8](list []string, v T) string {
	if int(v) < len(list) && list[v] != "" {
		return list[v]
	}
	return strconv.Itoa(int(v))
}

// String is the event's line.
func (e *Event) String() string {
	esc := url.QueryEscape
	kind := word(kinds[:], e.Kind)
	switch e.Kind {
	case Publish, Unpublished:
		return fmt.Sprintf("%s %d", kind, e.ID)
	case Published:
		return fmt.Sprintf("%s %d %s %d", kind, e.ID, esc(e.Partition), e.Offset)
	case Open:
		return fmt.Sprintf("%s %d %s %d", kind, e.Stream, esc(e.Subscriber()), e.Window())
	case Opened, Positions:
		return fmt.Sprintf("%s %d%s", kind, e.Stream, positionsText(e.Positions()))
	case Delivered:
		return fmt.Sprintf("%s %d %d %s %d %d %d %d", kind, e.Stream, e.Delivery, esc(e.Partition), e.Offset, e.Attempt, e.Epoch, e.ID)
	case Ack, Nack:
		return fmt.Sprintf("%s %d %d", kind, e.Stream, e.Delivery)
	case Answer:
		return fmt.Sprintf("%s %d %d %s", kind, e.Stream, e.Delivery, word(statuses[:], e.Status))
	case Closed:
		return fmt.Sprintf("%s %d", kind, e.Stream)
	case Down:
		return fmt.Sprintf("%s %s", kind, word(hows[:], e.Status))
	case Dead, BrokerAck:
		return fmt.Sprintf("%s %s %s %d", kind, esc(e.Subscriber()), esc(e.Partition), e.Offset)
	}
	return kind
}

func positionsText(list []Position) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, " %s:%d@%d", url.QueryEscape(p.Partition), p.Next, p.Epoch)
		for _, r := range p.Ahead {
			fmt.Fprintf(&b, "+%d-%d", r.First, r.Last)
		}
	}
	return b.String()
}

// Write writes the trace as text.
func (t *Trace) Write(to io.Writer) error {
	w := bufio.NewWriter(to)
	if t.MaxAttempts > 0 {
		_, _ = fmt.Fprintf(w, "attempts %d\n", t.MaxAttempts) // Flush tells
	}
	for i := range t.Events {
		_, _ = w.WriteString(t.Events[i].String())
		_ = w.WriteByte('\n')
	}
	return w.Flush()
}

// Parse reads what Write wrote.
func Parse(from io.Reader) (*Trace, error) {
	t := &Trace{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := t.parse(line); err != nil {
			return nil, fmt.Errorf("line %d %q: %w", n, line, err)
		}
	}
	return t, lines.Err()
}

func (t *Trace) parse(line string) error {
	f := fields{rest: strings.Fields(line)}
	name := f.text()
	if name == "attempts" {
		t.MaxAttempts = int32(f.num(32))
		return f.end()
	}
	e := Event{Kind: f.one(name, kinds[:])}
	f.event(&e)
	t.Events = append(t.Events, e)
	return f.end()
}

// fields reads the words of a line; the first fault stays.
type fields struct {
	rest []string
	err  error
}

// event reads what comes after the kind, in the order that String writes.
func (f *fields) event(e *Event) {
	switch e.Kind {
	case Publish, Unpublished:
		e.ID = uint64(f.num(63))
	case Published:
		e.ID, e.Partition, e.Offset = uint64(f.num(63)), f.name(), f.num(63)
	case Open:
		e.Stream = int32(f.num(31))
		e.more = &more{subscriber: f.name(), window: int(f.num(31))}
	case Opened, Positions:
		e.Stream = int32(f.num(31))
		e.more = &more{positions: f.positions()}
	case Delivered:
		e.Stream, e.Delivery, e.Partition = int32(f.num(31)), uint64(f.num(63)), f.name()
		e.Offset, e.Attempt, e.Epoch, e.ID = f.num(63), int32(f.num(31)), uint64(f.num(63)), uint64(f.num(63))
	case Ack, Nack, Answer:
		e.Stream, e.Delivery = int32(f.num(31)), uint64(f.num(63))
		if e.Kind == Answer {
			e.Status = Status(f.one(f.text(), statuses[:]))
		}
	case Closed:
		e.Stream = int32(f.num(31))
	case Down:
		e.Status = Status(f.one(f.text(), hows[:]))
	case Dead, BrokerAck:
		e.more = &more{subscriber: f.name()}
		e.Partition, e.Offset = f.name(), f.num(63)
	}
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) end() error {
	if f.err == nil && len(f.rest) > 0 {
		return fmt.Errorf("%q is too much", f.rest)
	}
	return f.err
}

func (f *fields) text() string {
	if len(f.rest) == 0 {
		f.fail(errors.New("it ends too early"))
		return ""
	}
	s := f.rest[0]
	f.rest = f.rest[1:]
	return s
}

func (f *fields) name() string {
	s, err := url.QueryUnescape(f.text())
	if err != nil {
		f.fail(err)
	}
	return s
}

func (f *fields) num(bits int) int64 { return f.parseNum(f.text(), bits) }

func (f *fields) parseNum(s string, bits int) int64 {
	v, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		f.fail(err)
	}
	return int64(v)
}

// one finds a word among names.
func (f *fields) one(s string, names []string) Kind {
	for i, n := range names {
		if n == s && n != "" {
			return Kind(i)
		}
	}
	f.fail(fmt.Errorf("%q is unknown", s))
	return 0
}

func (f *fields) positions() []Position {
	var list []Position
	for len(f.rest) > 0 {
		list = append(list, f.position(f.text()))
	}
	return list
}

func (f *fields) position(s string) (p Position) {
	name, rest, _ := strings.Cut(s, ":")
	parts := strings.Split(rest, "+")
	next, epoch, _ := strings.Cut(parts[0], "@")
	p.Next, p.Epoch = f.parseNum(next, 63), uint64(f.parseNum(epoch, 63))
	for _, r := range parts[1:] {
		first, last, _ := strings.Cut(r, "-")
		p.Ahead = append(p.Ahead, offset.Range{First: f.parseNum(first, 63), Last: f.parseNum(last, 63)})
	}
	var err error
	if p.Partition, err = url.QueryUnescape(name); err != nil {
		f.fail(err)
	}
	return p
}
