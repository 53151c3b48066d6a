package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
)

// parseStart reads --from: latest, earliest, an offset, or a time.
func parseStart(text string) (ackmesh.Start, error) {
	switch text {
	case "latest":
		return ackmesh.Latest(), nil
	case "earliest":
		return ackmesh.Earliest(), nil
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return ackmesh.AtOffset(offset), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return ackmesh.AtTime(t), nil
	}
	return ackmesh.Start{}, usageError{fmt.Errorf("--from %q: give latest, earliest, an offset, or a time such as 2026-01-31T12:00:00Z", text)}
}

// parseMode reads --mode. Without one it follows from what else was given: a
// share divides, a filter selects, else the client gets everything.
func parseMode(text, share, filter string) (ackmesh.Mode, error) {
	mode, err := modeOf(text, share, filter)
	switch {
	case err != nil:
		return 0, err
	case share != "" && mode != ackmesh.LoadBalance:
		return 0, usageError{fmt.Errorf("--share %q goes with --mode %v only", share, ackmesh.LoadBalance)}
	case filter != "" && mode != ackmesh.Multicast:
		return 0, usageError{fmt.Errorf("--filter goes with --mode %v only", ackmesh.Multicast)}
	case filter == "" && mode == ackmesh.Multicast:
		return 0, usageError{errors.New("--mode multicast needs a --filter")}
	}
	return mode, nil
}

func modeOf(text, share, filter string) (ackmesh.Mode, error) {
	switch {
	case text == "" && share != "":
		return ackmesh.LoadBalance, nil
	case text == "" && filter != "":
		return ackmesh.Multicast, nil
	case text == "":
		return ackmesh.Broadcast, nil
	}
	for _, mode := range []ackmesh.Mode{ackmesh.Broadcast, ackmesh.LoadBalance, ackmesh.Multicast} {
		if text == mode.String() {
			return mode, nil
		}
	}
	return 0, usageError{fmt.Errorf("--mode %q is unknown: choose broadcast, load-balance or multicast", text)}
}
