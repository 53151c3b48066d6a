package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// TestHelp compares the help of every command with testdata/help.
func TestHelp(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())
		t.Run(strings.Join(path, "_"), func(t *testing.T) {
			got := call(t, nil, append(path[1:], "--help")...)
			got.want(t, exitOK)
			golden(t, filepath.Join("testdata", "help", strings.Join(path, "_")+".txt"), got.out)
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newApp().rootCommand())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (-update rewrites it):\n%s", path, got)
	}
}

func TestEverySettingHasHelp(t *testing.T) {
	keys := allKeys()
	for _, key := range keys {
		if settingHelp[key] == "" {
			t.Errorf("%s has no help", key)
		}
	}
	if len(settingHelp) != len(keys) {
		t.Errorf("%d settings, %d helps", len(keys), len(settingHelp))
	}
}

func TestUsageErrors(t *testing.T) {
	tests := []struct {
		args string
		want []string
	}{
		{"serv", []string{`no command "serv"`, "did you mean serve?"}},
		{"topics lst", []string{`no command "lst"`, "list"}},
		{"serve now", []string{`takes no argument, but got "now"`, "ackmesh serve --help"}},
		{"serve --lisen x", []string{"unknown flag: --lisen"}},
		{"topics describe", []string{"takes one argument, the topic"}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			call(t, nil, strings.Fields(tt.args)...).want(t, exitUsage, tt.want...)
		})
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		call(t, nil, "completion", shell).want(t, exitOK, "ackmesh")
	}
}

func TestVersion(t *testing.T) {
	call(t, nil, "version").want(t, exitOK, "ackmesh ", "go1.")
}
