package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	Backend      string    `json:"backend"`
	Broker       string    `json:"broker,omitempty"`
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
	// Ratios are of Ackmesh's rate to that of each other system.
	Ratios  map[string]*ratio `json:"ratios,omitempty"`
	Targets []verdict         `json:"targets,omitempty"`

	wanted []target
}

// ratio is that of two rates in each round, and the median.
type ratio struct {
	Rounds []float64 `json:"rounds"`
	Median float64   `json:"median"`
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
	Broker  float64      `json:"broker_cpu_us_per_event,omitempty"`
	PeakRSS int64        `json:"peak_rss_bytes_max"`
}

// verdict is a target and whether it was met.
type verdict struct {
	Wanted string `json:"wanted"`
	Met    bool   `json:"met"`
}

func newReport(w *workshop) (*report, error) {
	p50, p99, err := syncTimes(w.dir)
	if err != nil {
		return nil, fmt.Errorf("measure the disk: %w", err)
	}
	r := &report{
		Machine: machine(), Backend: w.opt.backend.name, Command: strings.Join(os.Args[1:], " "), Began: time.Now().UTC(),
		Rounds: w.opt.rounds, FsyncP50Ms: p50.Seconds() * 1e3, FsyncP99Ms: p99.Seconds() * 1e3,
	}
	if w.broker != nil {
		r.Broker = w.broker.name
	}
	return r, nil
}

func (r *report) head(out io.Writer) {
	say(out, "%s\nfdatasync of 4 KiB: p50 %.2f ms, p99 %.2f ms\n", r.Machine, r.FsyncP50Ms, r.FsyncP99Ms)
	if r.Broker != "" {
		say(out, "behind Ackmesh and beside it: %s\n", r.Broker)
	}
}

// add takes the result of one round.
func (r *report) add(sys string, sc scenario, res load.Result) {
	for _, p := range res.Phases {
		w := r.row(sc.name, p.Name)
		w.wanted = sc.targets
		s := w.series(sys)
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
		w.judge()
		for _, v := range w.Targets {
			if !v.Met {
				missed++
			}
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
		s.Broker = s.median(func(p load.Phase) float64 { return p.BrokerCPU })
		s.PeakRSS = slices.Max(s.Peaks)
	}
	mesh := w.Systems[nameMesh]
	if mesh == nil {
		return
	}
	w.Ratios = map[string]*ratio{}
	for _, name := range w.peers() {
		if r := mesh.to(w.Systems[name]); len(r.Rounds) > 0 {
			w.Ratios[name] = r
		}
	}
}

// peers are the other systems, in order of their names.
func (w *row) peers() []string {
	names := slices.Sorted(maps.Keys(w.Systems))
	return slices.DeleteFunc(names, func(n string) bool { return n == nameMesh })
}

// to is the ratio to another system.
func (s *series) to(other *series) *ratio {
	r := &ratio{}
	for i := range min(len(s.Rounds), len(other.Rounds)) {
		if rate := other.Rounds[i].Rate; rate > 0 {
			r.Rounds = append(r.Rounds, s.Rounds[i].Rate/rate)
		}
	}
	r.Median = median(r.Rounds)
	return r
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

// judge compares a row with its targets, if it has any.
func (w *row) judge() {
	mesh := w.Systems[nameMesh]
	for _, t := range w.wanted {
		if t.phase != w.Phase || mesh == nil {
			continue
		}
		switch r := w.Ratios[t.to]; {
		case t.ratio > 0 && r != nil:
			w.Targets = append(w.Targets, verdict{fmt.Sprintf("≥ %g × %s", t.ratio, t.to), r.Median >= t.ratio})
		case t.p50 > 0:
			w.Targets = append(w.Targets, verdict{fmt.Sprintf("p50 < %g ms", t.p50), mesh.P50 < t.p50})
		case t.peak > 0:
			w.Targets = append(w.Targets, verdict{fmt.Sprintf("peak < %d MB", t.peak/1e6), mesh.PeakRSS < t.peak})
		}
	}
}

func (r *report) table(out io.Writer) {
	say(out, "\nMedians of %d rounds; CPU is in µs per event, of the server, of the clients%s;\nthe ratio is the median of the rounds' own, of Ackmesh's rate to that of the other system.\n\n",
		r.Rounds, r.ofBroker(" and of the broker"))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	say(t, "measurement\tphase\tsystem\tevents/s\tratio\tp50 ms\tp99 ms\tserver µs\tclient µs\t%speak MB\ttarget\n", r.ofBroker("broker µs\t"))
	for _, w := range r.Measurements {
		for _, sys := range append([]string{nameMesh}, w.peers()...) {
			if s := w.Systems[sys]; s != nil {
				say(t, "%s\t%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s%s\t%s\n", w.Scenario, w.Phase, sys, s.Rate,
					w.ratioText(sys), figure(s.P50), figure(s.P99), figure(s.CPU), figure(s.Client), r.ofBroker(figure(s.Broker)+"\t"),
					whole(float64(s.PeakRSS)/1e6), w.targetText(sys))
			}
		}
	}
	_ = t.Flush() // a terminal that is gone is nobody's loss
}

// ofBroker leaves out what is about a broker where there is none.
func (r *report) ofBroker(text string) string {
	if r.Broker == "" {
		return ""
	}
	return text
}

// ratioText is the ratio of Ackmesh to a system, in that system's line.
func (w *row) ratioText(sys string) string {
	if r := w.Ratios[sys]; r != nil {
		return figure(r.Median)
	}
	return ""
}

func (w *row) targetText(sys string) string {
	if sys != nameMesh {
		return ""
	}
	text := make([]string, len(w.Targets))
	for i, v := range w.Targets {
		text[i] = v.Wanted + ": met"
		if !v.Met {
			text[i] = v.Wanted + ": MISSED"
		}
	}
	return strings.Join(text, "; ")
}

func figure(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func whole(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", v)
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
