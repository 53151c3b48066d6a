package tracecheck

import (
	"errors"
	"strings"
	"testing"
)

// popped is a trace of a log that hands an event out again at another place.
const popped = `attempts 6
open 1 client%2Fa 10
opened 1 t%2F:0@0
publish 1
unpublished 1
publish 1
published 1 t%2Fq1 5
publish 2
published 2 t%2Fq2 6
publish 3
published 3 other%2Fq1 0
delivered 1 11 t%2Fq1 5 1 0 1
delivered 1 12 t%2Fq2 6 1 0 2
ack 1 12
answer 1 12 durable
closed 1
open 2 client%2Fa 10
opened 2 t%2F:0@0
delivered 2 13 t%2Fq9 0 2 0 1
ack 2 13
answer 2 13 durable
delivered 2 14 t%2Fq3 7 1 0 1
ack 2 14
answer 2 14 durable
`

// TestCheckEvents: by events, what comes again elsewhere breaks nothing, an
// event that may be in the log twice may be finished twice, and topics that
// nobody follows are nobody's.
func TestCheckEvents(t *testing.T) {
	for name, c := range map[string]struct {
		edit       func(string) string
		check      error
		unfinished bool
	}{
		"kept":       {edit: func(s string) string { return s }},
		"not final":  {edit: func(s string) string { return s + "delivered 2 15 t%2Fq1 8 3 0 1\n" }, check: ErrBrokeAckFinal},
		"again":      {edit: func(s string) string { return s + "delivered 2 15 t%2Fq1 8 2 0 2\n" }, check: ErrBrokeAckFinal},
		"never came": {edit: func(s string) string { return s + "publish 4\npublished 4 t%2Fq1 9\n" }, check: ErrBrokeComplete, unfinished: true},
		"not finished": {edit: func(s string) string {
			return s + "publish 4\npublished 4 t%2Fq1 9\ndelivered 2 15 t%2Fq1 9 1 0 4\n"
		}, unfinished: true},
		"id again": {edit: func(s string) string {
			return s + "publish 4\npublished 4 t%2Fq1 9\ndelivered 2 14 t%2Fq1 9 1 0 4\nack 2 14\nanswer 2 14 durable\n"
		}, check: ErrBrokeUniqueIDs},
		"buried": {edit: func(s string) string {
			return s + "publish 4\npublished 4 t%2Fq1 9\ndelivered 2 15 t%2Fq1 9 6 0 4\ndead client%2Fa t%2Fq1 9\n"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := Parse(strings.NewReader(c.edit(popped)))
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckEvents(tr); !errors.Is(err, c.check) || c.check == nil && err != nil {
				t.Errorf("the check says %v, not %v", err, c.check)
			}
			if err := Unfinished(tr); (err != nil) != c.unfinished {
				t.Errorf("unfinished: %v", err)
			}
		})
	}
}
