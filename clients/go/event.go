package ackmesh

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
	"github.com/ackmesh/ackmesh/frame"
)

// Attribute is one named value of an event.
type Attribute = frame.Attribute

// Names of attributes that applications use most: those of CloudEvents 1.0.2 and
// its extensions for partitioning and tracing, and those that ask the mesh for
// something.
const (
	AttrID              = frame.AttrID
	AttrSource          = frame.AttrSource
	AttrType            = frame.AttrType
	AttrSubject         = frame.AttrSubject
	AttrTime            = frame.AttrTime
	AttrDataContentType = frame.AttrDataContentType
	AttrDataSchema      = frame.AttrDataSchema
	AttrPartitionKey    = frame.AttrPartitionKey
	AttrTraceParent     = frame.AttrTraceParent
	AttrTTL             = frame.AttrTTL
	AttrDeliverTime     = frame.AttrDeliverTime
)

// Event is an event to publish: attributes and data. id and source are filled in
// by the client, time by the server, where they are absent. Publishing reads an
// Event and keeps nothing of it: it may be changed and published again as soon as
// the call returns. Give a repeated event no id, or a new one each time: events of
// one source and id count as one.
type Event struct {
	// Attributes have distinct names of a-z and 0-9, 1 to 256 bytes, and values of
	// at most 4096 bytes of UTF-8; at most 56 of them. An empty id, source, time or
	// partitionkey counts as absent.
	Attributes []Attribute
	// Data is the payload, at most 8 MiB of any bytes.
	Data []byte
}

// NewEvent returns an event of a CloudEvents type.
func NewEvent(eventType string, data []byte) *Event {
	attrs := make([]Attribute, 1, 8)
	attrs[0] = Attribute{Name: AttrType, Value: eventType}
	return &Event{Attributes: attrs, Data: data}
}

// EventFromMap returns an event with the attributes of a map, in order of name.
func EventFromMap(attributes map[string]string, data []byte) *Event {
	e := &Event{Attributes: make([]Attribute, 0, len(attributes)+2), Data: data}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		e.Attributes = append(e.Attributes, Attribute{Name: name, Value: attributes[name]})
	}
	return e
}

// Set gives an attribute a value, in place of the one it has, and returns e.
func (e *Event) Set(name, value string) *Event {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			e.Attributes[i].Value = value
			return e
		}
	}
	e.Attributes = append(e.Attributes, Attribute{Name: name, Value: value})
	return e
}

// Get returns the value of an attribute, and whether there is one.
func (e *Event) Get(name string) (string, bool) {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			return e.Attributes[i].Value, true
		}
	}
	return "", false
}

// SetPartitionKey sets the key that places the event in its partition and orders
// it among the events of the same key.
func (e *Event) SetPartitionKey(key string) *Event { return e.Set(AttrPartitionKey, key) }

// SetTime sets when the event happened.
func (e *Event) SetTime(t time.Time) *Event {
	return e.Set(AttrTime, t.UTC().Format(time.RFC3339Nano))
}

// SetTTL sets how long after its append the event may be delivered, in whole
// milliseconds, rounded up.
func (e *Event) SetTTL(ttl time.Duration) *Event {
	ms := (ttl + time.Millisecond - 1) / time.Millisecond
	return e.Set(AttrTTL, strconv.FormatInt(int64(ms), 10))
}

// CloudEvent is an event by the names that CloudEvents 1.0.2 gives its parts.
// Empty fields are absent attributes.
type CloudEvent struct {
	ID, Source, Type, Subject   string
	Time                        time.Time
	DataContentType, DataSchema string
	Extensions                  map[string]string
	Data                        []byte
}

// Event returns it as an Event that shares Data with it.
func (c *CloudEvent) Event() *Event {
	e := EventFromMap(c.Extensions, c.Data)
	for _, a := range [...]Attribute{
		{Name: AttrID, Value: c.ID},
		{Name: AttrSource, Value: c.Source},
		{Name: AttrType, Value: c.Type},
		{Name: AttrSubject, Value: c.Subject},
		{Name: AttrDataContentType, Value: c.DataContentType},
		{Name: AttrDataSchema, Value: c.DataSchema},
	} {
		if a.Value != "" {
			e.Set(a.Name, a.Value)
		}
	}
	if !c.Time.IsZero() {
		e.SetTime(c.Time)
	}
	return e
}

// check finds what would spoil the request that the event travels in, or is sure
// to be refused. The rest, such as legal names, is the server's to judge, which
// answers for each event.
func (e *Event) check() error {
	if len(e.Data) > frame.MaxDataSize {
		return badEvent("data has %d bytes, at most %d", len(e.Data), frame.MaxDataSize)
	}
	if len(e.Attributes) > frame.MaxPublishAttributes {
		return badEvent("%d attributes, at most %d", len(e.Attributes), frame.MaxPublishAttributes)
	}
	for i := range e.Attributes {
		if err := checkAttr(&e.Attributes[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkAttr(a *Attribute) error {
	switch {
	case a.Name == "":
		return badEvent("an attribute has no name")
	case len(a.Name) > frame.MaxNameLen:
		return badEvent("attribute name %q… has %d bytes, at most %d", a.Name[:32], len(a.Name), frame.MaxNameLen)
	case len(a.Value) > frame.MaxValueLen:
		return badEvent("attribute %q has %d bytes, at most %d", a.Name, len(a.Value), frame.MaxValueLen)
	case !utf8.ValidString(a.Name):
		return badEvent("attribute name %q is not UTF-8", a.Name)
	case !utf8.ValidString(a.Value):
		return badEvent("attribute %q is not UTF-8", a.Name)
	}
	return nil
}

// badEvent is a status, as the server's judgement would be.
func badEvent(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, "ackmesh: event: "+fmt.Sprintf(format, args...))
}

// complete fills f from the event and adds id and source where they are absent.
func (e *Event) complete(f *wire.Frame, source string, ids *ids) {
	hasID, hasSource := false, false
	for i := range e.Attributes {
		switch e.Attributes[i].Name {
		case AttrID:
			hasID = e.Attributes[i].Value != ""
		case AttrSource:
			hasSource = e.Attributes[i].Value != ""
		}
	}
	f.Attrs, f.Data = e.Attributes, e.Data
	if !hasID {
		f.Extra[f.Extras] = Attribute{Name: AttrID, Value: ids.next()}
		f.Extras++
	}
	if !hasSource {
		f.Extra[f.Extras] = Attribute{Name: AttrSource, Value: source}
		f.Extras++
	}
}
