package offsetstore

import (
	"math"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/offset"
)

// Generators of values, small ones so that cases meet.

func genRanges(t *rapid.T, label string, top int64) []offset.Range {
	n := rapid.IntRange(0, 6).Draw(t, label+" ranges")
	var out []offset.Range
	for range n {
		first := rapid.Int64Range(0, top).Draw(t, label+" first")
		out = append(out, offset.Range{First: first, Last: first + rapid.Int64Range(-1, 5).Draw(t, label+" len")})
	}
	return out
}

func genAttempts(t *rapid.T, label string, top int64) []Attempt {
	var out []Attempt
	for _, r := range genRanges(t, label, top) {
		out = append(out, Attempt{
			Range:  r,
			Sent:   rapid.Int32().Draw(t, "sent"),
			Spent:  rapid.Int32Range(0, 6).Draw(t, "spent"),
			Breaks: rapid.Int32Range(0, 3).Draw(t, "breaks"),
			Due:    rapid.Int64().Draw(t, "due"),
		})
	}
	return out
}

// genRaw draws a value in any form.
func genRaw(t *rapid.T, label string) Value {
	const top = 60
	return Value{
		Epoch:    rapid.Uint64Range(0, 2).Draw(t, label+" epoch"),
		Position: rapid.Int64Range(0, top).Draw(t, label+" position"),
		Finished: genRanges(t, label+" finished", top),
		High:     rapid.Int64Range(0, top).Draw(t, label+" high"),
		Attempts: genAttempts(t, label+" attempts", top),
		Log:      genLog(t),
		Absent:   rapid.Int64().Draw(t, label+" absent"),
	}
}

func genLog(t *rapid.T) LogID {
	return LogID{
		TopicID: rapid.SampledFrom([]string{"", "id", "\x00\xff"}).Draw(t, "topic id"),
		Floor:   genFingerprint(t, "floor"), Top: genFingerprint(t, "top"),
	}
}

func genFingerprint(t *rapid.T, label string) Fingerprint {
	if rapid.Bool().Draw(t, label+" unknown") {
		return Fingerprint{}
	}
	return Fingerprint{
		Offset: rapid.Int64().Draw(t, label+" offset"), Hash: rapid.Uint64Min(1).Draw(t, label+" hash"),
		LeaderEpoch: rapid.Int32().Draw(t, label+" leader epoch"),
	}
}

// gen draws a value in normal form.
func gen(t *rapid.T, label string) Value { return Normal(genRaw(t, label)) }

// genWide draws a normal value with offsets from all over the range.
func genWide(t *rapid.T) Value {
	v := gen(t, "value")
	wide := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{
		math.MinInt64, -1, 0, 1, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64 - 1, math.MaxInt64,
	}))
	v.Position, v.High = wide.Draw(t, "position"), wide.Draw(t, "high")
	v.Epoch = rapid.Uint64().Draw(t, "epoch")
	for range rapid.IntRange(0, 40).Draw(t, "more ranges") {
		first := wide.Draw(t, "first")
		last := first + rapid.Int64Range(0, 1<<20).Draw(t, "len")
		v.Finished = append(v.Finished, offset.Range{First: first, Last: last})
		v.Attempts = append(v.Attempts, Attempt{Range: offset.Range{First: first, Last: last}, Sent: 2})
	}
	return Normal(v)
}
