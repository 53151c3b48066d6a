package main

import (
	"strings"
	"testing"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

func TestParseStart(t *testing.T) {
	for text, want := range map[string]string{
		"latest":                    "at:AT_LATEST",
		"earliest":                  "at:AT_EARLIEST",
		"0":                         "offset:0",
		"42":                        "offset:42",
		"2026-01-31T12:00:00Z":      "time:{seconds:1769860800}",
		"2026-01-31T12:00:00+01:00": "time:{seconds:1769857200}",
	} {
		got, err := parseStart(text)
		if err != nil || strings.ReplaceAll(got.String(), " ", "") != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
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
		want                ackmeshv1.Mode
		err                 string
	}{
		{"", "", "", ackmeshv1.Mode_MODE_BROADCAST, ""},
		{"", "s", "", ackmeshv1.Mode_MODE_LOAD_BALANCE, ""},
		{"", "", "f", ackmeshv1.Mode_MODE_MULTICAST, ""},
		{"load-balance", "", "", ackmeshv1.Mode_MODE_LOAD_BALANCE, ""},
		{"multicast", "", "", ackmeshv1.Mode_MODE_MULTICAST, ""},
		{"broadcast", "s", "", 0, "--share"},
		{"broadcast", "", "f", 0, "--filter"},
		{"load-balance", "s", "f", 0, "--filter"},
		{"", "s", "f", 0, "--share"},
		{"all", "", "", 0, `--mode "all" is unknown`},
	}
	for _, tt := range tests {
		got, err := parseMode(tt.mode, tt.share, tt.filter)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q %q %q: %v, %v", tt.mode, tt.share, tt.filter, got, err)
		}
	}
}
