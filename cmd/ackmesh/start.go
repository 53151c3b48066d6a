package main

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// parseStart reads --from: latest, earliest, an offset, or a time.
func parseStart(text string) (*ackmeshv1.Start, error) {
	switch text {
	case "latest":
		return &ackmeshv1.Start{Place: &ackmeshv1.Start_At_{At: ackmeshv1.Start_AT_LATEST}}, nil
	case "earliest":
		return &ackmeshv1.Start{Place: &ackmeshv1.Start_At_{At: ackmeshv1.Start_AT_EARLIEST}}, nil
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return &ackmeshv1.Start{Place: &ackmeshv1.Start_Offset{Offset: offset}}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return &ackmeshv1.Start{Place: &ackmeshv1.Start_Time{Time: timestamppb.New(t)}}, nil
	}
	return nil, usageError{fmt.Errorf("--from %q: give latest, earliest, an offset, or a time such as 2026-01-31T12:00:00Z", text)}
}

// parseMode reads --mode. Without one it follows from what else was given: a
// share divides, a filter selects, else the client gets everything.
func parseMode(text, share, filter string) (ackmeshv1.Mode, error) {
	mode, ok := map[string]ackmeshv1.Mode{
		"broadcast":    ackmeshv1.Mode_MODE_BROADCAST,
		"load-balance": ackmeshv1.Mode_MODE_LOAD_BALANCE,
		"multicast":    ackmeshv1.Mode_MODE_MULTICAST,
	}[text]
	switch {
	case text == "" && share != "" && filter == "":
		mode = ackmeshv1.Mode_MODE_LOAD_BALANCE
	case text == "" && filter != "" && share == "":
		mode = ackmeshv1.Mode_MODE_MULTICAST
	case text == "" && share == "" && filter == "":
		mode = ackmeshv1.Mode_MODE_BROADCAST
	case text != "" && !ok:
		return 0, usageError{fmt.Errorf("--mode %q is unknown: choose broadcast, load-balance or multicast", text)}
	}
	if share != "" && mode != ackmeshv1.Mode_MODE_LOAD_BALANCE {
		return 0, usageError{fmt.Errorf("--share %q goes with --mode load-balance only", share)}
	}
	if filter != "" && mode != ackmeshv1.Mode_MODE_MULTICAST {
		return 0, usageError{fmt.Errorf("--filter goes with --mode multicast only")}
	}
	return mode, nil
}
