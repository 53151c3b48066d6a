package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// place is where a position is.
type place struct {
	Topic      string `json:"topic"`
	Subscriber string `json:"subscriber"`
	Partition  string `json:"partition"`
}

func (p place) String() string {
	return fmt.Sprintf("topic %q subscriber %q partition %q", p.Topic, p.Subscriber, p.Partition)
}

// savedOffset is one entry of an export.
type savedOffset struct {
	place
	Position *int64 `json:"position"`
}

// check wants all of it: what is left out would mean every partition, or the
// beginning.
func (o *savedOffset) check() error {
	switch {
	case o.Topic == "":
		return errors.New("it has no topic")
	case o.Subscriber == "":
		return errors.New("it has no subscriber")
	case o.Partition == "":
		return errors.New("it has no partition")
	case o.Position == nil:
		return errors.New("it has no position")
	case *o.Position < 0:
		return fmt.Errorf("its position is %d", *o.Position)
	}
	return nil
}

// readOffsets reads what export has printed.
func readOffsets(in io.Reader) ([]savedOffset, error) {
	var list []savedOffset
	seen := map[place]int{}
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	for {
		var o savedOffset
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err == nil {
			err = o.check()
		}
		n := len(list) + 1
		if first, ok := seen[o.place]; ok && err == nil && *list[first-1].Position != *o.Position {
			err = fmt.Errorf("%v has another position in entry %d", o.place, first)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
		seen[o.place] = n
		list = append(list, o)
	}
}

func (a *app) offsetsImport(t *target) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "import [FILE|-]",
		Short: "Reset positions to what export has printed",
		Long: `Reset the position of every subscriber and partition in the file, as offsets reset
does. What is not in the file stays. Subscribers must have been there before. The
whole file is read before the first position is set; --timeout is for each.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, _, err := a.openInput(args)
			if err != nil {
				return err
			}
			defer func() { _ = in.Close() }() // it was only read
			list, err := readOffsets(in)
			if err != nil {
				return fmt.Errorf("nothing was set: %w", err)
			}
			unbounded := *t
			unbounded.timeout = 0 // it bounds each reset, not all of them
			return unbounded.admin(cmd.Context(), func(ctx context.Context, admin ackmeshv1.AdminClient) error {
				return a.importOffsets(ctx, t, admin, list, dry)
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check every entry and change nothing")
	return cmd
}

func (a *app) importOffsets(ctx context.Context, t *target, admin ackmeshv1.AdminClient, list []savedOffset, dry bool) error {
	n := 0
	for i, o := range list {
		moved, err := importOffset(ctx, t, admin, o, dry)
		if err != nil {
			return fmt.Errorf("entry %d, after %d positions: %v: %w", i+1, n, o.place, err)
		}
		for _, p := range moved {
			n++
			if p.GetTo() != *o.Position {
				a.tell("%v: %s\n", o.place, p.GetWarning())
			}
		}
		if len(moved) == 0 {
			a.tell("%v: it has no position yet, so none was set\n", o.place)
		}
	}
	text := "%d positions were set\n"
	if dry {
		text = "dry run: nothing was changed; %d positions would be set\n"
	}
	_, err := fmt.Fprintf(a.out, text, n)
	return err
}

func importOffset(ctx context.Context, t *target, admin ackmeshv1.AdminClient, o savedOffset, dry bool) ([]*ackmeshv1.ResetPartition, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	answer, err := admin.ResetOffset(ctx, &ackmeshv1.ResetOffsetRequest{
		Topic: o.Topic, Subscriber: o.Subscriber, Partition: o.Partition, DryRun: dry,
		To: &ackmeshv1.Start{Place: &ackmeshv1.Start_Offset{Offset: *o.Position}},
	})
	return answer.GetPartitions(), err
}
