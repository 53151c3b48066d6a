package load

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"
)

// stampLen is what the head of the data takes: when the event was sent.
const stampLen = 8

// Maker makes events that differ in id, time stamp and data. Not safe for
// concurrent use.
type Maker struct {
	prefix string
	n      uint64
	event  Event
}

// NewMaker makes a Maker of events with so many bytes of data, of which no
// compressor makes less. prefix makes the ids unique.
func NewMaker(prefix string, size int) *Maker {
	m := &Maker{prefix: prefix + "-"}
	m.event.Data = make([]byte, max(size, stampLen))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range m.event.Data {
		m.event.Data[i] = byte(r.Uint32())
	}
	m.event.Attrs = [Attributes][2]string{
		{"id", ""},
		{"source", "/bench/orders"},
		{"type", "com.example.order.placed"},
		{"subject", "orders/4711/items/12"},
		{"time", time.Now().UTC().Format(time.RFC3339Nano)},
		{"datacontenttype", "application/octet-stream"},
		{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		{"tenant", "acme-eu-west"},
	}
	return m
}

// Next is an event sent at a time; it is valid until the next call.
func (m *Maker) Next(at time.Duration) *Event {
	m.n++
	var id [64]byte
	m.event.Attrs[0][1] = string(strconv.AppendUint(append(id[:0], m.prefix...), m.n, 36))
	binary.LittleEndian.PutUint64(m.event.Data, uint64(at))
	return &m.event
}

// sentAt is when an event was sent, by the clock of the process.
func sentAt(data []byte) time.Duration {
	if len(data) < stampLen {
		return 0
	}
	return time.Duration(binary.LittleEndian.Uint64(data))
}

// touch does what any application does at least: it reads every byte of the
// data and two attributes.
func touch(m *Message) uint64 {
	sum := uint64(len(m.Attr("id")) + len(m.Attr("type")))
	b := m.Data
	for ; len(b) >= 8; b = b[8:] {
		sum += binary.LittleEndian.Uint64(b)
	}
	for _, c := range b {
		sum += uint64(c)
	}
	return sum
}
