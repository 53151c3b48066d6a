// Package storagetest holds every backend to the contract of package storage.
//
// A backend's test makes a Harness and calls Run. What the harness declares
// must work, and what it does not declare must be absent: both are checked.
// Topics get names of their own, so that many runs may share one broker; no
// case assumes that offsets begin at 0 or follow without gaps.
//
// The suite is tested itself: its mutants_test.go breaks a good backend in
// many ways and wants each of them found.
package storagetest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// T is what the suite needs of *testing.T. Fatalf does not return.
type T interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Capabilities is what a backend is declared to have. False means absent,
// which is checked as well.
type Capabilities struct {
	Bounder, TopicAdmin, Trimmer, Fingerprinter, Checkpointer, Acker, Liter bool

	// TopicID: Topic.ID is not empty, and another one after the topic was
	// deleted and made again.
	TopicID bool
	// AutoCreate: Append and EnsureTopic make missing topics.
	AutoCreate bool
	// AnyName: every name that storage.CheckName passes may name a topic.
	// Else the backend refuses what it cannot take with ErrInvalid.
	AnyName bool
	// DedupWindow is how long a DedupKey is remembered; 0: not at all.
	DedupWindow time.Duration
}

// Harness is how the suite handles a backend. Hooks that are nil leave out
// the cases that need them.
type Harness struct {
	// Has is what the backend has.
	Has Capabilities

	// Open opens a backend for one case. The suite closes it.
	Open func(t T) storage.Backend

	// Reopen closes b, as at the end of a process, and opens the same log
	// again.
	Reopen func(t T, b storage.Backend) storage.Backend
	// CrashReopen ends b without Close, as a killed process does, and opens
	// the same log again.
	CrashReopen func(t T, b storage.Backend) storage.Backend
	// RestartBroker stops the broker and starts it, while backends are open.
	RestartBroker func(t T)

	// MakeTopic makes a topic with so many partitions. nil: TopicAdmin does.
	MakeTopic func(t T, b storage.Backend, topic string, partitions int)
	// AppendAt appends one frame to a topic of one partition, for which the
	// time of append is to be at.
	AppendAt func(t T, b storage.Backend, topic string, frame []byte, at time.Time)
	// Advance moves the backend's clock.
	Advance func(t T, b storage.Backend, d time.Duration)

	// SameFrame tells whether a frame that was read is the one appended,
	// where a backend stamps frames. nil: equal bytes.
	SameFrame func(appended, read []byte) bool

	// Patience is how long to wait for what must come; only a failing case
	// waits that long. 0: 10 s.
	Patience time.Duration
	// Settle is how long to look for what must not come. 0: 50 ms.
	Settle time.Duration
	// MaxFrame is the largest frame that the backend takes, in bytes.
	// 0: 16 MiB.
	MaxFrame int
}

func (h Harness) withDefaults() Harness {
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	if h.Settle == 0 {
		h.Settle = 50 * time.Millisecond
	}
	if h.MaxFrame == 0 {
		h.MaxFrame = 16 << 20
	}
	if h.SameFrame == nil {
		h.SameFrame = bytes.Equal
	}
	return h
}

// testCase is one case of the suite.
type testCase struct {
	name string
	// needs tells whether the case applies; nil: to every backend.
	needs func(h *Harness) bool
	run   func(c *env)
}

// Run runs every case that applies to the backend as a subtest of t, and logs
// the others.
func Run(t *testing.T, h Harness) {
	h = h.withDefaults()
	for _, tc := range allCases() {
		if tc.applies(&h) {
			t.Run(tc.name, func(t *testing.T) { tc.run(newEnv(t, &h)) })
		} else {
			t.Logf("%s does not apply: the harness lacks what it needs", tc.name)
		}
	}
}

func (tc testCase) applies(h *Harness) bool { return tc.needs == nil || tc.needs(h) }

// allCases lists the cases of all areas.
func allCases() (list []testCase) {
	areas := [][]testCase{
		appendCases, orderCases, frameCases, pollCases, batchCases, waitCases, cursorCases, boundsCases,
		timeCases, trimCases, topicCases, nameCases, recreateCases, lifeCases, crashCases,
		capabilityCases, dedupCases, fingerprintCases, concurrentCases,
	}
	for _, area := range areas {
		list = append(list, area...)
	}
	return list
}

func hasBounder(h *Harness) bool { return h.Has.Bounder }
func hasAdmin(h *Harness) bool   { return h.Has.TopicAdmin }
func hasTrimmer(h *Harness) bool { return h.Has.Trimmer && h.Has.Bounder }
func canReopen(h *Harness) bool  { return h.Reopen != nil }
func canCrash(h *Harness) bool   { return h.CrashReopen != nil }
func canStamp(h *Harness) bool   { return h.AppendAt != nil && h.Has.Bounder }
func canAdvance(h *Harness) bool { return h.Advance != nil }
