// Package recommend chooses the instance that a client should open its stream
// on. It is pure: what is known of the instances is an argument.
package recommend

import (
	"errors"
	"math"
	"slices"
)

// Load is a sample of what an instance carries.
type Load struct {
	// Sessions is the number of live streams.
	Sessions int
	// Inflow and Outflow are bytes a second, published and delivered.
	Inflow, Outflow float64
	// CPU is the share of the machine in use, 0 to 1.
	CPU float64
}

// Instance is one candidate.
type Instance struct {
	// ID and URL name it and say where clients reach it.
	ID, URL string
	// Load is its latest sample; valid where Sampled.
	Load    Load
	Sampled bool
	// Promised is how many clients were sent there since the sample.
	Promised int
}

const (
	// UnknownScore is the score of an instance without a usable sample.
	UnknownScore = 500
	// OverloadScore is added for an instance that is overloaded.
	OverloadScore = 10_000
	overloadCPU   = 0.8
	overloadFlow  = 5_000_000
)

// ErrNone: there is no instance at all.
var ErrNone = errors.New("no instance is known")

// Score rates an instance; lower is freer. Overload begins above, not at, 0.8 of
// the CPU or 5,000,000 bytes a second of inflow. A sample that makes no sense
// counts as none.
func Score(in Instance) float64 {
	l := in.Load
	if !in.Sampled || !sane(l) {
		return UnknownScore + float64(in.Promised)
	}
	score := float64(l.Sessions+in.Promised) + l.Inflow*0.001 + l.Outflow*0.001 + l.CPU*1000
	if l.CPU > overloadCPU || l.Inflow > overloadFlow {
		score += OverloadScore
	}
	return score
}

func sane(l Load) bool {
	for _, v := range []float64{l.Inflow, l.Outflow, l.CPU} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return false
		}
	}
	return l.Sessions >= 0
}

// Choose returns the instance of the lowest score and that score, ties to the
// lowest id. Failed instances are left out unless no other is left.
func Choose(instances []Instance, failed []string) (Instance, float64, error) {
	best, score := -1, 0.0
	pick := func(skip bool) {
		for i, in := range instances {
			if skip && slices.Contains(failed, in.ID) {
				continue
			}
			if s := Score(in); best < 0 || s < score || (s == score && in.ID < instances[best].ID) {
				best, score = i, s
			}
		}
	}
	if pick(true); best < 0 {
		pick(false)
	}
	if best < 0 {
		return Instance{}, 0, ErrNone
	}
	return instances[best], score, nil
}
