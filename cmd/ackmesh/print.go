package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// table prints rows in columns. The first row is the heading.
type table struct {
	w   *tabwriter.Writer
	err error
}

func newTable(to io.Writer, heading ...any) *table {
	t := &table{w: tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)}
	t.row(heading...)
	return t
}

// row adds one row.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = strings.NewReplacer("\t", " ", "\n", " ").Replace(fmt.Sprint(cell))
	}
	if _, err := fmt.Fprintln(t.w, strings.Join(texts, "\t")); err != nil && t.err == nil {
		t.err = err
	}
}

// flush prints what was added.
func (t *table) flush() error {
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

// printJSON prints an answer as the wire contract's JSON.
func printJSON(to io.Writer, m proto.Message) error {
	text, err := protojson.MarshalOptions{Multiline: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s\n", text)
	return err
}
