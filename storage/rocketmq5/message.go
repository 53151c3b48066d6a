package rocketmq5

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// idMaker makes message ids in the form of RocketMQ's own clients: version,
// machine, process, seconds since 2021, a counter.
type idMaker struct {
	prefix string
	n      atomic.Uint32
}

var idEpoch = time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)

func newIDMaker() *idMaker {
	machine := rand.Uint64() & (1<<48 - 1) // random: instances may share a machine's address
	return &idMaker{prefix: fmt.Sprintf("01%012X%04X", machine, os.Getpid()&0xFFFF)}
}

func (m *idMaker) next(now time.Time) string {
	return fmt.Sprintf("%s%08X%08X", m.prefix, uint32(now.Sub(idEpoch)/time.Second), m.n.Add(1))
}

const (
	// maxProperties and maxPropertyBytes bound the attributes that are copied
	// into properties; proxies take 128 and 16 KiB.
	maxProperties    = 100
	maxPropertyBytes = 8 << 10
	// maxGroup is the longest message group, in bytes.
	maxGroup = 63
	maxKey   = 128
)

// plan decides the type of the message that an event becomes in a topic, and
// makes it. It is called anew when the topic's type turns out to be another.
func (l *Log) plan(topic string, e *storage.Event, route *session.Route, id string, now time.Time) (v2.MessageType, session.Outgoing, error) {
	view := frame.View(e.Frame)
	m := session.Outgoing{ID: id, Born: now, Body: e.Frame, Properties: properties(view), Keys: keysOf(view)}
	due, delayed, err := dueOf(view)
	if err != nil {
		return 0, m, fmt.Errorf("rocketmq5: topic %q: %w", topic, err)
	}
	if delayed && due.After(now) {
		if !route.Takes(v2.MessageType_DELAY) || len(route.Types) == 0 {
			return 0, m, fmt.Errorf("rocketmq5: topic %q is for messages of type %s, so %s is not possible: use a topic with +message.type=DELAY: %w",
				topic, typesOf(route), frame.AttrDeliverTime, storage.ErrInvalid)
		}
		m.Deliver = due
		return v2.MessageType_DELAY, m, nil
	}
	switch takes := route.Takes; {
	case len(route.Types) == 0:
		return v2.MessageType_NORMAL, m, nil
	case takes(v2.MessageType_FIFO) && (e.Key != "" || !takes(v2.MessageType_NORMAL)):
		m.Group = groupOf(e.Key, id)
		return v2.MessageType_FIFO, m, nil
	case takes(v2.MessageType_NORMAL):
		return v2.MessageType_NORMAL, m, nil
	case takes(v2.MessageType_DELAY): // due at once
		m.Deliver = now
		return v2.MessageType_DELAY, m, nil
	}
	if isParent(route) {
		return 0, m, fmt.Errorf("rocketmq5: topic %q is a parent of lite topics and takes no events itself: publish to a lite topic of it: %w", topic, storage.ErrTopicType)
	}
	return 0, m, fmt.Errorf("rocketmq5: topic %q is for messages of type %s, events are sent as NORMAL, FIFO or DELAY: create it with one of these as +message.type: %w",
		topic, typesOf(route), storage.ErrInvalid)
}

func typesOf(r *session.Route) string {
	if len(r.Types) == 0 {
		return "NORMAL"
	}
	names := make([]string, len(r.Types))
	for i, t := range r.Types {
		names[i] = t.String()
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// groupOf is the message group of a key. One that RocketMQ does not take is
// replaced by its hash: equal keys still have equal groups. An event without a
// key has a group of its own.
func groupOf(key, id string) string {
	if key == "" {
		return id
	}
	if len(key) <= maxGroup && strings.TrimSpace(key) != "" && !hasControl(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

func hasControl(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
}

// dueOf reads emdeliverytime.
func dueOf(v frame.View) (due time.Time, delayed bool, err error) {
	raw, ok := v.Attr(frame.AttrDeliverTime)
	if !ok {
		return time.Time{}, false, nil
	}
	if ms, err := strconv.ParseInt(string(raw), 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), true, nil
	}
	due, err = time.Parse(time.RFC3339, string(raw))
	if err != nil {
		return time.Time{}, false, fmt.Errorf("attribute %s is %q: give RFC 3339, or milliseconds since 1970: %w", frame.AttrDeliverTime, raw, storage.ErrInvalid)
	}
	return due, true, nil
}

// properties copies attributes into user properties, for filters and tools of
// RocketMQ: the event itself is in the body. What RocketMQ does not take, and
// what is too much, is left out here only.
func properties(v frame.View) map[string]string {
	size, m := 0, make(map[string]string, min(v.Count(), maxProperties))
	for name, val := range v.Attributes() {
		size += len(name) + len(val)
		if len(m) == maxProperties || size > maxPropertyBytes {
			break
		}
		if isPropertyName(name) && !hasControl(string(val)) {
			m[string(name)] = string(val)
		}
	}
	return m
}

// isPropertyName tells whether a name is one of CloudEvents: RocketMQ's own all
// have capitals or underscores.
func isPropertyName(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(name) > 0
}

// keysOf is the key by which tools find the message: the event's id.
func keysOf(v frame.View) []string {
	id, ok := v.Attr(frame.AttrID)
	if !ok || len(id) == 0 || len(id) > maxKey || hasControl(string(id)) || strings.Contains(string(id), " ") {
		return nil
	}
	return []string{string(id)}
}
