package frame_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
)

var deadLetterStamps = []frame.Attribute{
	{Name: "emdlqid", Value: "1"},
	{Name: "emdlqreason", Value: "nack"},
	{Name: "emdlqtopic", Value: "t"},
	{Name: "emdlqpartition", Value: "0"},
	{Name: "emdlqoffset", Value: "7"},
	{Name: "emdlqsubscriber", Value: "client:c"},
	{Name: "emdlqattempts", Value: "6"},
}

func restamp(t *testing.T, f frame.Frame, opt frame.RestampOptions) (frame.Frame, int) {
	t.Helper()
	out, leftOut, err := frame.Restamp([]byte("kept"), encode(t, f), opt)
	if err != nil || !bytes.HasPrefix(out, []byte("kept")) {
		t.Fatalf("%v", err)
	}
	got, err := frame.Decode(out[len("kept"):])
	if err != nil {
		t.Fatal(err)
	}
	return got, leftOut
}

func TestC79_DeadLetterAndReplayCarryNoOldStamps(t *testing.T) {
	f := eightAttributes()
	f.Set("empopck", "old")
	f.Set("emmqoffset", "3")
	f.Set("emdlqreason", "old")
	f.Set("emttl", "500")
	letter, leftOut := restamp(t, f, frame.RestampOptions{Stamps: deadLetterStamps})
	if reason, _ := letter.Get("emdlqreason"); leftOut != 0 || len(letter.Attributes) != 8+1+7 || reason != "nack" {
		t.Errorf("the dead letter has %s, reason %q, %d left out", sortedNames(letter), reason, leftOut)
	}
	replay, _ := restamp(t, letter, frame.RestampOptions{Drop: []string{"emttl"}, Stamps: []frame.Attribute{{Name: "emtosubscriber", Value: "client:c"}}})
	want := eightAttributes()
	want.Set("emtosubscriber", "client:c")
	if !plain(replay, true).equal(plain(want, true)) {
		t.Errorf("replayed as %+v, want %+v", replay, want)
	}
}

func TestRestampOfAFullFrame(t *testing.T) {
	f := frame.Frame{Type: frame.Event, Seq: 9, Data: []byte("d")}
	for i := range 60 {
		f.Set(fmt.Sprintf("ext%d", i), "v")
	}
	for _, name := range []string{"id", "source", "type", "time"} {
		f.Set(name, "v")
	}
	got, leftOut := restamp(t, f, frame.RestampOptions{Stamps: deadLetterStamps})
	_, hasID := got.Get("id")
	_, hasFirst := got.Get("ext52")
	_, hasLast := got.Get("ext53")
	if leftOut != 7 || len(got.Attributes) != 64 || !hasID || !hasFirst || hasLast || got.Seq != 9 || string(got.Data) != "d" {
		t.Errorf("%d left out, %d attributes: %s", leftOut, len(got.Attributes), sortedNames(got))
	}
}

func TestRestampErrors(t *testing.T) {
	stored := encode(t, eightAttributes())
	for _, c := range []struct {
		stored []byte
		stamps []frame.Attribute
		kind   error
	}{
		{stored[:20], nil, frame.ErrTruncated},
		{nil, nil, frame.ErrTruncated},
		{stored, []frame.Attribute{{Name: "a", Value: strings.Repeat("v", 4097)}}, frame.ErrLimit},
		{stored, []frame.Attribute{{Name: "a"}, {Name: "a"}}, frame.ErrDuplicate},
		{stored, make([]frame.Attribute, 65), frame.ErrLimit},
	} {
		out, _, err := frame.Restamp([]byte("kept"), c.stored, frame.RestampOptions{Stamps: c.stamps})
		if !errors.Is(err, c.kind) || string(out) != "kept" {
			t.Errorf("got %q, %v; want %v", out, err, c.kind)
		}
	}
	var sixty []frame.Attribute
	for i := range 60 {
		sixty = append(sixty, frame.Attribute{Name: fmt.Sprintf("s%d", i)})
	}
	if _, _, err := frame.Restamp(nil, stored, frame.RestampOptions{Stamps: sixty}); !errors.Is(err, frame.ErrLimit) {
		t.Errorf("60 stamps beside 8 well-known attributes: %v", err)
	}
}

// Restamp says what taking attributes off and putting them on says.
func TestRestampEqualsPlainWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFrame().Draw(t, "frame")
		opt := frame.RestampOptions{Drop: []string{"emttl", "id"}, Stamps: anyStamps().Draw(t, "stamps")}
		stored, err := frame.Append(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		out, leftOut, err := frame.Restamp(nil, stored, opt)
		if err != nil || leftOut != 0 {
			t.Fatalf("%d left out, %v", leftOut, err)
		}
		got, err := frame.Decode(out)
		want := plain(f, false)
		delete(want.attrs, "emttl")
		delete(want.attrs, "id")
		for _, s := range opt.Stamps {
			want.attrs[s.Name] = s.Value
		}
		if err != nil || !plain(got, true).equal(want) {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

func TestClip(t *testing.T) {
	full := strings.Repeat("v", frame.MaxValueLen)
	for in, want := range map[string]string{
		"":                      "",
		"short é":               "short é",
		full:                    full,
		full + "v":              full,
		full[:4095] + "é":       full[:4095],
		full[:4094] + "é":       full[:4094] + "é",
		full[:4094] + "é" + "v": full[:4094] + "é",
		full[:4093] + "😀":       full[:4093],
		"a\xffb":                "a\uFFFDb",
		full[:4095] + "\xff":    full[:4095],
	} {
		if got := frame.Clip(in); got != want {
			t.Errorf("clipping %d bytes gives %d bytes ending in %q", len(in), len(got), got[max(0, len(got)-6):])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := frame.Clip(string(rapid.SliceOfN(rapid.Byte(), 4000, 5000).Draw(t, "bytes")))
		if len(got) > frame.MaxValueLen || !utf8.ValidString(got) {
			t.Fatalf("%d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
	})
}
