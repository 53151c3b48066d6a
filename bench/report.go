package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ackmesh/ackmesh/bench/load"
)

// report gathers the figures of all rounds.
type report struct {
	Machine      string    `json:"machine"`
	Command      string    `json:"command"`
	Began        time.Time `json:"began"`
	FsyncP50Ms   float64   `json:"fsync_p50_ms"`
	FsyncP99Ms   float64   `json:"fsync_p99_ms"`
	Rounds       int       `json:"rounds"`
	Measurements []*row    `json:"measurements"`
}

// row is one phase of one scenario: for each system a figure of each round.
type row struct {
	Scenario string             `json:"scenario"`
	Phase    string             `json:"phase"`
	Systems  map[string]*series `json:"systems"`
	// Ratios are Ackmesh's rate to JetStream's in each round; Ratio their median.
	Ratios []float64 `json:"ratios,omitempty"`
	Ratio  float64   `json:"ratio,omitempty"`
	Target *verdict  `json:"target,omitempty"`
}

// series is what one system reached: every round, and the medians.
type series struct {
	Rounds  []load.Phase `json:"rounds"`
	Peaks   []int64      `json:"peak_rss_bytes"`
	Rate    float64      `json:"events_per_second"`
	P50     float64      `json:"p50_ms"`
	P99     float64      `json:"p99_ms"`
	CPU     float64      `json:"server_cpu_us_per_event"`
	Client  float64      `json:"client_cpu_us_per_event"`
	PeakRSS int64        `json:"peak_rss_bytes_max"`
}

// verdict is a target and whether it was met.
type verdict struct {
	Wanted string `json:"wanted"`
	Met    bool   `json:"met"`
}

func newReport(o options, dir string) (*report, error) {
	p50, p99, err := syncTimes(dir)
	if err != nil {
		return nil, fmt.Errorf("measure the disk: %w", err)
	}
	return &report{
		Machine: machine(), Command: strings.Join(os.Args[1:], " "), Began: time.Now().UTC(), Rounds: o.rounds,
		FsyncP50Ms: p50.Seconds() * 1e3, FsyncP99Ms: p99.Seconds() * 1e3,
	}, nil
}

func (r *report) head(out io.Writer) {
	say(out, "%s\nfdatasync of 4 KiB: p50 %.2f ms, p99 %.2f ms\n", r.Machine, r.FsyncP50Ms, r.FsyncP99Ms)
}

// add takes the result of one round.
func (r *report) add(sys string, sc scenario, res load.Result) {
	for _, p := range res.Phases {
		s := r.row(sc.name, p.Name).series(sys)
		s.Rounds = append(s.Rounds, p)
		s.Peaks = append(s.Peaks, res.PeakRSS)
	}
}

func (r *report) row(scenario, phase string) *row {
	for _, w := range r.Measurements {
		if w.Scenario == scenario && w.Phase == phase {
			return w
		}
	}
	w := &row{Scenario: scenario, Phase: phase, Systems: map[string]*series{}}
	r.Measurements = append(r.Measurements, w)
	return w
}

func (w *row) series(sys string) *series {
	if w.Systems[sys] == nil {
		w.Systems[sys] = &series{}
	}
	return w.Systems[sys]
}

// finish sums up, prints the table and writes the JSON.
func (r *report) finish(o options, out io.Writer) error {
	missed := 0
	for _, w := range r.Measurements {
		w.sum()
		if w.judge(); w.Target != nil && !w.Target.Met {
			missed++
		}
	}
	r.table(out)
	if err := r.write(o.json, out); err != nil {
		return err
	}
	if o.check && missed > 0 {
		return fmt.Errorf("%d targets missed", missed)
	}
	return nil
}

// sum makes the medians.
func (w *row) sum() {
	for _, s := range w.Systems {
		s.Rate = s.median(func(p load.Phase) float64 { return p.Rate })
		s.P50 = s.median(func(p load.Phase) float64 { return p.Latency.P50 })
		s.P99 = s.median(func(p load.Phase) float64 { return p.Latency.P99 })
		s.CPU = s.median(func(p load.Phase) float64 { return p.ServerCPU })
		s.Client = s.median(func(p load.Phase) float64 { return p.ClientCPU })
		s.PeakRSS = slices.Max(s.Peaks)
	}
	mesh, other := w.Systems[nameMesh], w.Systems[nameNATS]
	if mesh == nil || other == nil {
		return
	}
	for i := range min(len(mesh.Rounds), len(other.Rounds)) {
		if rate := other.Rounds[i].Rate; rate > 0 {
			w.Ratios = append(w.Ratios, mesh.Rounds[i].Rate/rate)
		}
	}
	w.Ratio = median(w.Ratios)
}

func (s *series) median(f func(load.Phase) float64) float64 {
	list := make([]float64, len(s.Rounds))
	for i, p := range s.Rounds {
		list[i] = f(p)
	}
	return median(list)
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// judge compares a row with its target, if it has one.
func (w *row) judge() {
	mesh := w.Systems[nameMesh]
	t, ok := targetOf(w.Scenario, w.Phase)
	switch {
	case !ok || mesh == nil:
	case t.ratio > 0 && len(w.Ratios) > 0:
		w.Target = &verdict{fmt.Sprintf("ratio ≥ %g", t.ratio), w.Ratio >= t.ratio}
	case t.p50 > 0:
		w.Target = &verdict{fmt.Sprintf("p50 < %g ms", t.p50), mesh.P50 < t.p50}
	case t.peak > 0:
		w.Target = &verdict{fmt.Sprintf("peak < %d MB", t.peak/1e6), mesh.PeakRSS < t.peak}
	}
}

func targetOf(name, phase string) (target, bool) {
	for _, sc := range scenarios {
		for _, t := range sc.targets {
			if sc.name == name && t.phase == phase {
				return t, true
			}
		}
	}
	return target{}, false
}

func (r *report) table(out io.Writer) {
	say(out, "\nMedians of %d rounds; CPU is in µs per event, of the server and of the clients; the ratio is the median of the rounds' own.\n\n", r.Rounds)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	say(t, "measurement\tphase\tsystem\tevents/s\tratio\tp50 ms\tp99 ms\tserver µs\tclient µs\tpeak MB\ttarget\n")
	for _, w := range r.Measurements {
		for _, sys := range []string{nameMesh, nameNATS} {
			if s := w.Systems[sys]; s != nil {
				say(t, "%s\t%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.0f\t%s\n", w.Scenario, w.Phase, sys, s.Rate,
					w.ratioText(sys), figure(s.P50), figure(s.P99), figure(s.CPU), figure(s.Client), float64(s.PeakRSS)/1e6, w.targetText(sys))
			}
		}
	}
	_ = t.Flush() // a terminal that is gone is nobody's loss
}

func (w *row) ratioText(sys string) string {
	if sys != nameMesh || w.Ratio == 0 || math.IsInf(w.Ratio, 0) {
		return ""
	}
	return fmt.Sprintf("%.2f", w.Ratio)
}

func (w *row) targetText(sys string) string {
	switch {
	case sys != nameMesh || w.Target == nil:
		return ""
	case w.Target.Met:
		return w.Target.Wanted + ": met"
	}
	return w.Target.Wanted + ": MISSED"
}

func figure(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *report) write(file string, out io.Writer) (err error) {
	if file == "" {
		return nil
	}
	w := out
	if file != "-" {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
