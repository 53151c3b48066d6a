package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/bench/load"
)

func result(rate, p50 float64, peak int64, phase string) load.Result {
	return load.Result{PeakRSS: peak, Phases: []load.Phase{{Name: phase, Rate: rate, Latency: load.Latency{P50: p50}}}}
}

func scenarioNamed(t *testing.T, name string) scenario {
	t.Helper()
	for _, s := range embeddedScenarios {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no scenario %s", name)
	return scenario{}
}

// The ratio is the median of the rounds' own ratios, not that of the medians:
// what slows the machine in one round slows both systems.
func TestReport_RatioOfRounds(t *testing.T) {
	r := &report{Rounds: 3}
	sc := scenarioNamed(t, "publish-8")
	for _, rates := range [][2]float64{{100, 50}, {10, 4}, {90, 60}} {
		r.add(nameMesh, sc, result(rates[0], 1, 0, "publish"))
		r.add(nameNATS, sc, result(rates[1], 1, 0, "publish"))
	}
	var out bytes.Buffer
	if err := r.finish(options{check: true}, &out); err != nil {
		t.Fatal(err)
	}
	if w := r.Measurements[0]; w.Ratios[nameNATS].Median != 2 || w.Systems[nameMesh].Rate != 90 || !w.Targets[0].Met {
		t.Errorf("ratio %+v, rate %g, targets %+v", w.Ratios[nameNATS], w.Systems[nameMesh].Rate, w.Targets)
	}
	if !strings.Contains(out.String(), "≥ 1.5 × jetstream: met") {
		t.Errorf("the table does not tell the target:\n%s", &out)
	}
}

func TestReport_Targets(t *testing.T) {
	for _, tt := range []struct {
		scenario, phase string
		res             load.Result
		met             bool
	}{
		{"live-1", "idle", result(200, 0.9, 0, "idle"), true},
		{"live-1", "idle", result(200, 1, 0, "idle"), false},
		{"idle-10000", "idle", result(0, 0, 499_999_999, "idle"), true},
		{"idle-10000", "idle", result(0, 0, 500_000_000, "idle"), false},
	} {
		r := &report{Rounds: 1}
		r.add(nameMesh, scenarioNamed(t, tt.scenario), tt.res)
		err := r.finish(options{check: true}, &bytes.Buffer{})
		if got := r.Measurements[0].Targets; len(got) != 1 || got[0].Met != tt.met || (err == nil) != tt.met {
			t.Errorf("%s %s: %+v: targets %+v, error %v", tt.scenario, tt.phase, tt.res, got, err)
		}
	}
}

// Beside several systems each has its own ratio and target, and one that misses
// fails the whole.
func TestReport_SeveralPeers(t *testing.T) {
	r := &report{Rounds: 1, Broker: "a broker"}
	sc := kafkaScenarios[2]
	for sys, rate := range map[string]float64{nameMesh: 90, nameSarama: 100, nameGroup: 95} {
		r.add(sys, sc, result(rate, 1, 0, "catch-up"))
	}
	var out bytes.Buffer
	if err := r.finish(options{check: true}, &out); err == nil || !strings.Contains(err.Error(), "1 targets") {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"≥ 0.8 × sarama: met; ≥ 1 × sarama-group: MISSED", "0.90", "0.95", "broker µs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// On one broker each round begins with another system, so that none always
// has the cold or the full one.
func TestWorkshop_Turn(t *testing.T) {
	w := &workshop{broker: &broker{}}
	w.systems = append(w.systems, system{name: "a"}, system{name: "b"}, system{name: "c", kinds: []string{load.Live}})
	for _, tt := range []struct{ kind, want string }{
		{load.Live, "abc bca cab"}, {load.Publish, "ab ba ab"},
	} {
		var got []string
		for round := range 3 {
			names := ""
			for _, s := range w.turn(scenario{kind: tt.kind}, round) {
				names += s.name
			}
			got = append(got, names)
		}
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("%s: %s, want %s", tt.kind, g, tt.want)
		}
	}
}

// Without the other system there is no ratio, and so no target of one.
func TestReport_Alone(t *testing.T) {
	r := &report{Rounds: 1}
	r.add(nameMesh, scenarioNamed(t, "publish-8"), result(100, 1, 0, "publish"))
	file := filepath.Join(t.TempDir(), "figures.json")
	if err := r.finish(options{check: true, json: file}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if w := got.Measurements[0]; len(w.Targets) != 0 || len(w.Ratios) != 0 || w.Systems[nameMesh].Rounds[0].Rate != 100 {
		t.Errorf("%+v", w)
	}
}

func TestMedian(t *testing.T) {
	for want, list := range map[float64][]float64{0: nil, 3: {3}, 2: {1, 3}, 5: {9, 5, 1}} {
		if got := median(list); got != want {
			t.Errorf("median of %v is %g", list, got)
		}
	}
}

func TestParseFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-rounds 0":        "rounds",
		"-only publish-9":  `"publish-9"`,
		"-duration -1s":    "duration",
		"publish-1":        `unexpected argument "publish-1"`,
		"-quick -alone":    "",
		"-only live-1":     "",
		"-size 4 -rounds2": "flag",
		"-backend files":   `"files": choose from embedded, kafka, rocketmq4, rocketmq5`,

		"-backend kafka -only catch-up-1":  "",
		"-backend kafka -only fan-out-100": `"fan-out-100"`,
	} {
		_, err := parseFlags(strings.Fields(args), &bytes.Buffer{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestSyncTimes(t *testing.T) {
	p50, p99, err := syncTimes(t.TempDir())
	if err != nil || p50 <= 0 || p99 < p50 {
		t.Errorf("p50 %v, p99 %v, %v", p50, p99, err)
	}
}
