// Package conformance runs scenario files with the generated Go code, and with the
// client library of Go. What the files may say is in conformance/README.md; the
// runners of the other languages have the same steps under the same names.
package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Scenario is one file.
type Scenario struct {
	// About says what a client can rely on.
	About string `json:"about"`
	// PatienceMS is how long a step waits for what it needs.
	PatienceMS int `json:"patience_ms"`
	// FailsAt is the step that fails, from 1, and FailsWith a part of the reason; of
	// files in conformance/wrong only.
	FailsAt   int    `json:"fails_at"`
	FailsWith string `json:"fails_with"`
	// Steps are done one after another.
	Steps []json.RawMessage `json:"steps"`
}

// defaultPatience holds where a scenario says nothing.
const defaultPatience = 20 * time.Second

// StepError says which step failed, from 1, and why.
type StepError struct {
	Step int
	Do   string
	Err  error
}

// Error names the step.
func (e *StepError) Error() string { return fmt.Sprintf("step %d, %s: %v", e.Step, e.Do, e.Err) }

// Unwrap is why.
func (e *StepError) Unwrap() error { return e.Err }

// Load reads a file. run takes the place of ${run}, so that a scenario has topics
// and clients of its own whenever it runs.
func Load(path, run string) (*Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &Scenario{}
	if err := strict([]byte(strings.ReplaceAll(string(text), "${run}", run)), s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if s.About == "" || len(s.Steps) == 0 {
		return nil, fmt.Errorf("%s: about or steps are missing", filepath.Base(path))
	}
	return s, nil
}

// step is one step of a scenario.
type step interface {
	run(w *world) error
}

// steps are all there are, by the name that `do` has.
var steps = map[string]func() step{
	"publish":        func() step { return &publish{} },
	"publish_stream": func() step { return &publishStream{} },
	"open":           func() step { return &open{} },
	"change":         func() step { return &change{} },
	"receive":        func() step { return &receive{} },
	"ack":            func() step { return &ack{} },
	"nack":           func() step { return &nack{} },
	"extend":         func() step { return &extend{} },
	"notice":         func() step { return &notice{} },
	"end":            func() step { return &end{} },
	"break":          func() step { return &breakOff{} },
	"ended":          func() step { return &ended{} },
	"recommend":      func() step { return &recommend{} },
	"crash":          func() step { return &crash{} },
}

// Run does all steps, and then ends in order the streams that are left. A failure
// is a *StepError; one of that ending counts as a step behind the last.
func (s *Scenario) Run(m Mesh, c Client) error {
	w := newWorld(m, c, s.PatienceMS)
	defer w.close()
	for i, raw := range s.Steps {
		do, st, err := parse(raw)
		if err == nil {
			err = st.run(w)
		}
		if err != nil {
			return &StepError{Step: i + 1, Do: do, Err: err}
		}
	}
	if err := w.endAll(); err != nil {
		return &StepError{Step: len(s.Steps) + 1, Do: "end of the scenario", Err: err}
	}
	return nil
}

// parse makes a step. One that has a field which it does not know is refused.
func parse(raw json.RawMessage) (string, step, error) {
	var fields map[string]json.RawMessage
	var do string
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "?", nil, err
	}
	if err := json.Unmarshal(fields["do"], &do); err != nil {
		return "?", nil, fmt.Errorf("do: %w", err)
	}
	delete(fields, "do")
	make, ok := steps[do]
	if !ok {
		return do, nil, fmt.Errorf("there is no step of that name")
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return do, nil, err
	}
	st := make()
	return do, st, strict(rest, st)
}

// strict decodes JSON and refuses fields that nobody reads.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
