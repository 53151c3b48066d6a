package main

import (
	"bytes"
	"encoding/json"
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

// printJSON prints an answer as the wire contract's JSON. It is indented here since
// protojson varies its spaces on purpose.
func printJSON(to io.Writer, m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = to.Write(out.Bytes())
	return err
}
