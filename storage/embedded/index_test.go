package embedded

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage/embedded/seglog"
)

// drawRuns makes runs as a partition has them, with gaps and equal times.
func drawRuns(t *rapid.T) []runRef {
	var runs []runRef
	var last runRef
	for range rapid.IntRange(0, 400).Draw(t, "runs") {
		r := runRef{
			first: last.end() + int64(rapid.SampledFrom([]int{0, 0, 0, 1, 100}).Draw(t, "gap")),
			time:  last.time + int64(rapid.IntRange(0, 3).Draw(t, "later")),
			pos:   last.pos + int64(last.size) + int64(rapid.IntRange(0, 5000).Draw(t, "others")),
			count: rapid.IntRange(1, 60).Draw(t, "count"),
		}
		r.size = 100 * r.count
		runs = append(runs, r)
		last = r
	}
	return runs
}

// firstWhere is the slow and obvious search.
func firstWhere(runs []runRef, ok func(runRef) bool) (runRef, bool) {
	for _, r := range runs {
		if ok(r) {
			return r, true
		}
	}
	return runRef{}, false
}

func TestIndexAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		var x index
		for _, r := range runs {
			x.add(r)
		}
		last := runRef{}
		if len(runs) > 0 {
			last = runs[len(runs)-1]
		}
		check := func(what string, it iter, found func(runRef) bool) {
			got, ok := it.run()
			want, wantOK := firstWhere(runs, found)
			if ok != wantOK || ok && got != want {
				t.Fatalf("%s: got %+v %v, want %+v %v", what, got, ok, want, wantOK)
			}
		}
		for range 20 {
			o := rapid.Int64Range(-1, last.end()+2).Draw(t, "offset")
			check("seek", x.seek(o), func(r runRef) bool { return r.end() > o })
			ms := rapid.Int64Range(-1, last.time+2).Draw(t, "time")
			check("seekTime", x.seekTime(ms), func(r runRef) bool { return r.time >= ms })
			pos := rapid.Int64Range(-1, last.pos+2).Draw(t, "pos")
			check("seekPos", x.seekPos(pos), func(r runRef) bool { return r.pos >= pos })
			got, ok := x.before(o)
			var want runRef
			wantOK := false
			for _, r := range runs {
				if r.first < o {
					want, wantOK = r, true
				}
			}
			if ok != wantOK || ok && got != want {
				t.Fatalf("before %d: got %+v %v, want %+v %v", o, got, ok, want, wantOK)
			}
		}
		low := rapid.Int64Range(0, last.end()+1).Draw(t, "trim")
		x.trim(low)
		it := x.seek(low)
		for _, want := range runs {
			if want.end() <= low {
				continue
			}
			if got, ok := it.run(); !ok || got != want {
				t.Fatalf("after trim to %d: %+v %v, want %+v", low, got, ok, want)
			}
			it.next()
		}
		if _, ok := it.run(); ok {
			t.Fatal("a run too many")
		}
	})
}

func TestSegmentIndexRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []indexedRun
		for _, r := range drawRuns(t) {
			runs = append(runs, indexedRun{rapid.Uint32().Draw(t, "topic"), rapid.IntRange(0, maxPartitions-1).Draw(t, "part"), rapid.Bool().Draw(t, "keyed"), r})
		}
		s := seglog.Segment{Seq: 1, End: 1}
		if n := len(runs); n > 0 {
			s.End = runs[n-1].pos + int64(runs[n-1].size)
		}
		packed := packIndex(s, runs)
		got, err := unpackIndex(packed, s)
		if err != nil || len(got) != len(runs) {
			t.Fatalf("%d runs, %v, want %d", len(got), err, len(runs))
		}
		for i := range got {
			if got[i] != runs[i] {
				t.Fatalf("run %d is %+v, want %+v", i, got[i], runs[i])
			}
		}
		other := s
		other.End++
		if _, err := unpackIndex(packed, other); err == nil {
			t.Fatal("the index of another segment was taken")
		}
	})
}

// Whatever an index file holds, what is taken of it is within the segment.
func FuzzUnpackIndex(f *testing.F) {
	s := seglog.Segment{Seq: 3, Base: 1000, End: 9000}
	f.Add(packIndex(s, []indexedRun{{1, 2, true, runRef{first: 5, time: 6, pos: 1000, count: 3, size: 400}}, {1, 0, false, runRef{first: 9, time: 6, pos: 1400, count: 1, size: 7600}}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		runs, err := unpackIndex(b, s)
		if err != nil {
			return
		}
		for _, r := range runs {
			if !r.fits(s) || r.end() < r.first {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// Whatever the meta of an entry is, it is refused or consistent.
func FuzzParseRun(f *testing.F) {
	h := runHeader{topic: 7, part: 3, first: 10, time: 20, count: 2, keyed: true}
	meta := make([]byte, runMetaLen(2, true))
	h.put(meta)
	putEnd(meta, 0, 4)
	putEnd(meta, 1, 9)
	f.Add(meta, 9)
	f.Add([]byte{1}, 0)
	f.Fuzz(func(t *testing.T, b []byte, body int) {
		h, err := parseRun(b)
		if err != nil || checkEnds(b, h.count, body) != nil {
			return
		}
		last := 0
		for i := range h.count {
			h.key(b, i)
			if end := recordEnd(b, i); end < last || end > body {
				t.Fatalf("record %d ends at %d of %d, the one before at %d", i, end, body, last)
			}
			last = recordEnd(b, i)
		}
	})
}
