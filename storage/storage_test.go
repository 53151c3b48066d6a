package storage_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

func TestCheckName(t *testing.T) {
	for _, c := range []struct {
		name  string
		legal bool
	}{
		{"a", true},
		{"a#b/c:d|e", true},
		{" ", true},
		{".", true},
		{"..", true},
		{"鍵🔑", true},
		{"\u200b", true},
		{strings.Repeat("x", 255), true},
		{strings.Repeat("ü", 127) + "x", true},
		{"", false},
		{strings.Repeat("x", 256), false},
		{strings.Repeat("ü", 128), false},
		{"a\x00", false},
		{"\n", false},
		{"\x7f", false},
		{"\u0085", false},
		{"\xff", false},
		{"a\xc3", false},
	} {
		err := storage.CheckName("topic", c.name)
		if (err == nil) != c.legal {
			t.Errorf("CheckName(%q): %v", c.name, err)
		}
		if err != nil && (!errors.Is(err, storage.ErrInvalid) || !strings.HasPrefix(err.Error(), "topic ")) {
			t.Errorf("CheckName(%q) does not name the field, or the kind of error: %v", c.name, err)
		}
	}
}

// Whatever is passed is what the rule says, and an error can be shown: it
// holds no control character itself.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"", "a", "a\x00", "\u0085", "\xff", strings.Repeat("ü", 128)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := storage.CheckName("topic", s)
		legal := s != "" && len(s) <= storage.MaxNameLen && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
		if (err == nil) != legal {
			t.Errorf("CheckName(%q): %v", s, err)
		}
		if err != nil && strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("the error %q has control characters", err)
		}
	})
}

// outer is a wrapper; counting is one with a capability of its own.
type outer struct{ storage.Backend }

func (o outer) Unwrap() storage.Backend { return o.Backend }

type counting struct {
	outer
	trims int
}

func (c *counting) Trim(context.Context, string, string, int64) error { c.trims++; return nil }

// opaque hides what it wraps.
type opaque struct{ storage.Backend }

func TestAs(t *testing.T) {
	m := memory.New(memory.Options{})
	defer m.Close()
	if got, ok := storage.As[storage.Bounder](outer{outer{m}}); !ok || got != storage.Bounder(m) {
		t.Errorf("through two wrappers: %v, %v", got, ok)
	}
	c := &counting{outer: outer{m}}
	if got, ok := storage.As[storage.Trimmer](outer{c}); !ok || got != storage.Trimmer(c) {
		t.Errorf("a wrapper's own capability does not come first: %v, %v", got, ok)
	}
	if got, ok := storage.As[*memory.Backend](outer{c}); !ok || got != m {
		t.Errorf("by type: %v, %v", got, ok)
	}
	if _, ok := storage.As[storage.Acker](outer{m}); ok {
		t.Error("what nobody has is found")
	}
	if _, ok := storage.As[storage.Bounder](outer{opaque{m}}); ok {
		t.Error("it looks through what is no wrapper")
	}
	if _, ok := storage.As[storage.Bounder](nil); ok {
		t.Error("nothing has a capability")
	}
	if _, ok := storage.As[storage.Bounder](outer{}); ok {
		t.Error("a wrapper of nothing has a capability")
	}
}

// slow is a log that reports when told.
type slow struct {
	storage.Backend
	refuse error
	done   chan storage.AppendDone
}

func (s *slow) Append(_ context.Context, _ string, _ []storage.Event, done storage.AppendDone) error {
	if s.refuse == nil {
		s.done <- done
	}
	return s.refuse
}

func TestAppendWait(t *testing.T) {
	s := &slow{done: make(chan storage.AppendDone, 1)}
	results := []storage.Appended{{Partition: "p", Offset: 3}}
	lost := errors.New("lost")
	for _, fate := range []struct {
		results []storage.Appended
		err     error
	}{{results, nil}, {nil, lost}} {
		go func() { (<-s.done)(fate.results, fate.err) }()
		got, err := storage.AppendWait(t.Context(), s, "t", nil)
		if !errors.Is(err, fate.err) || len(got) != len(fate.results) {
			t.Errorf("got %v, %v; want %v, %v", got, err, fate.results, fate.err)
		}
	}
	s.refuse = storage.ErrReadOnly
	if _, err := storage.AppendWait(t.Context(), s, "t", nil); !errors.Is(err, storage.ErrReadOnly) {
		t.Errorf("refused: %v", err)
	}
}

// When the context ends the fate is open, and a late report blocks nobody.
func TestAppendWaitEnds(t *testing.T) {
	s := &slow{done: make(chan storage.AppendDone, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := storage.AppendWait(ctx, s, "t", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	(<-s.done)(nil, nil)
}

func TestBatchReset(t *testing.T) {
	b := storage.Batch{Records: make([]storage.Record, 2, 8), Next: 3, Start: 1, Buf: make([]byte, 5, 64)}
	b.Records[0].Handle = "keeps memory alive"
	b.Reset()
	if len(b.Records) != 0 || len(b.Buf) != 0 || b.Next != 0 || b.Start != 0 {
		t.Errorf("not empty: %+v", b)
	}
	if cap(b.Records) != 8 || cap(b.Buf) != 64 {
		t.Errorf("the memory is gone: %d records, %d bytes", cap(b.Records), cap(b.Buf))
	}
	if b.Records[:1][0].Handle != nil {
		t.Error("a handle is kept")
	}
}

func TestRangeErrorTellsThePlace(t *testing.T) {
	err := &storage.RangeError{Topic: "a/b", Partition: "broker-a:3", Offset: 7, Min: 10, Max: 20}
	for _, part := range []string{`"a/b"`, `"broker-a:3"`, "7", "10..20"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not tell %s", err, part)
		}
	}
}
