package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
)

func TestParseStart(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]ackmesh.Start{
		"latest":                    ackmesh.Latest(),
		"earliest":                  ackmesh.Earliest(),
		"0":                         ackmesh.AtOffset(0),
		"42":                        ackmesh.AtOffset(42),
		"2026-01-31T12:00:00Z":      ackmesh.AtTime(noon),
		"2026-01-31T12:00:00+01:00": ackmesh.AtTime(noon.Add(-time.Hour)),
	} {
		got, err := parseStart(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "first", "2026-01-31", "99999999999999999999"} {
		if got, err := parseStart(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestParseMode(t *testing.T) {
	tests := []struct {
		mode, share, filter string
		want                ackmesh.Mode
		err                 string
	}{
		{"", "", "", ackmesh.Broadcast, ""},
		{"", "s", "", ackmesh.LoadBalance, ""},
		{"", "", "f", ackmesh.Multicast, ""},
		{"load-balance", "", "", ackmesh.LoadBalance, ""},
		{"multicast", "", "f", ackmesh.Multicast, ""},
		{"multicast", "", "", 0, "needs a --filter"},
		{"broadcast", "s", "", 0, "--share"},
		{"broadcast", "", "f", 0, "--filter"},
		{"load-balance", "s", "f", 0, "--filter"},
		{"", "s", "f", 0, "--filter"},
		{"all", "", "", 0, `--mode "all" is unknown`},
	}
	for _, tt := range tests {
		got, err := parseMode(tt.mode, tt.share, tt.filter)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q %q %q: %v, %v", tt.mode, tt.share, tt.filter, got, err)
		}
	}
}
