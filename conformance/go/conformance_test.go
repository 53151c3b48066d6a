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

// TestScenarios runs every scenario; all must hold.
func TestScenarios(t *testing.T) {
	each(t, "scenarios", func(t *testing.T, s *Scenario, m Mesh) {
		if err := s.Run(m); err != nil {
			t.Error(err)
		}
	})
}

// TestWrong runs the scenarios that ask for what must not happen. Each must fail,
// at the step and for the reason that it says.
func TestWrong(t *testing.T) {
	each(t, "wrong", func(t *testing.T, s *Scenario, m Mesh) {
		err := s.Run(m)
		var at *StepError
		if !errors.As(err, &at) || at.Step != s.FailsAt || s.FailsWith == "" || !strings.Contains(err.Error(), s.FailsWith) {
			t.Errorf("it is to fail at step %d with %q; it ended with: %v", s.FailsAt, s.FailsWith, err)
		}
	})
}

// each runs a test for every file of a folder of scenarios.
func each(t *testing.T, folder string, test func(*testing.T, *Scenario, Mesh)) {
	m := Mesh{GRPC: env(t, "ACKMESH_GRPC"), HTTP: env(t, "ACKMESH_HTTP"), Control: env(t, "ACKMESH_CONTROL")}
	files, err := filepath.Glob(filepath.Join("..", folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s (%v)", folder, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			s, err := Load(file, fmt.Sprintf("go-%d", time.Now().UnixNano()))
			if err != nil {
				t.Fatal(err)
			}
			test(t, s, m)
		})
	}
}

func env(t *testing.T, name string) string {
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run it with make test-conformance", name)
	}
	return value
}
