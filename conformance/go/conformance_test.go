//go:build conformance

package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// notForLibrary are the scenarios whose point is not the client library's to show,
// and why.
var notForLibrary = map[string]string{
	"bad_requests":     "it refuses them itself, or has no way to send them",
	"crash_after_ack":  "its stream does not end with the server: it opens another one by itself",
	"dead_letter":      "it has no retry policy",
	"deadline":         "it moves deadlines by itself",
	"late_ack":         "it moves deadlines by itself",
	"publish_statuses": "it refuses some of it itself, without a code",
	"settings_fixed":   "a subscription that is refused ends its OpenStream",
	"status_code":      "it refuses it itself, without a code",
}

// TestScenarios runs every scenario with the generated code; all must hold.
func TestScenarios(t *testing.T) {
	m := mesh(t)
	each(t, "scenarios", nil, func(t *testing.T, s *Scenario) { holds(t, s.Run(m, Generated{m})) })
}

// TestLibraryScenarios runs them with the client library.
func TestLibraryScenarios(t *testing.T) {
	m := mesh(t)
	each(t, "scenarios", notForLibrary, func(t *testing.T, s *Scenario) { holds(t, s.Run(m, Library{m})) })
}

// TestWrong runs the scenarios that ask for what must not happen. Each must fail,
// at the step and for the reason that it says.
func TestWrong(t *testing.T) {
	m := mesh(t)
	each(t, "wrong", nil, func(t *testing.T, s *Scenario) { fails(t, s, s.Run(m, Generated{m})) })
}

// TestLibraryWrong runs them with the client library.
func TestLibraryWrong(t *testing.T) {
	m := mesh(t)
	each(t, "wrong", notForLibrary, func(t *testing.T, s *Scenario) { fails(t, s, s.Run(m, Library{m})) })
}

// TestNotForLibrary holds the list above against the files that there are.
func TestNotForLibrary(t *testing.T) {
	for name := range notForLibrary {
		if files, err := filepath.Glob(filepath.Join("..", "*", name+".json")); err != nil || len(files) != 1 {
			t.Errorf("%s names %d files (%v)", name, len(files), err)
		}
	}
}

func holds(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

func fails(t *testing.T, s *Scenario, err error) {
	var at *StepError
	if !errors.As(err, &at) || at.Step != s.FailsAt || s.FailsWith == "" || !strings.Contains(err.Error(), s.FailsWith) {
		t.Errorf("it is to fail at step %d with %q; it ended with: %v", s.FailsAt, s.FailsWith, err)
	}
}

// each runs a test for every file of a folder of scenarios but those that are named.
func each(t *testing.T, folder string, but map[string]string, test func(*testing.T, *Scenario)) {
	files, err := filepath.Glob(filepath.Join("..", folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s (%v)", folder, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if _, not := but[name]; not {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, err := Load(file, fmt.Sprintf("go-%d", time.Now().UnixNano()))
			if err != nil {
				t.Fatal(err)
			}
			test(t, s)
		})
	}
}

func mesh(t *testing.T) Mesh {
	return Mesh{GRPC: env(t, "ACKMESH_GRPC"), HTTP: env(t, "ACKMESH_HTTP"), Control: env(t, "ACKMESH_CONTROL")}
}

func env(t *testing.T, name string) string {
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run it with make test-conformance", name)
	}
	return value
}
