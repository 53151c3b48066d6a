package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/ackmesh/ackmesh/frame"
	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Bounds of one request of "ackmesh lite publish".
const (
	liteBatchEvents = 256
	liteBatchBytes  = 1 << 20
)

// litePublishFlags are those of "ackmesh lite publish".
type litePublishFlags struct {
	liteTarget
	attrs []string
}

func (a *app) litePublish() *cobra.Command {
	f := new(litePublishFlags)
	cmd := &cobra.Command{
		Use:   "publish --parent PARENT --lite LITE [FILE|-]",
		Short: "Publish JSON lines to a lite topic",
		Long: `Publish the lines of a file, or of standard input, to a lite topic, in their order.
Lines are as with 'ackmesh publish'.

A bad line is told with its number and the rest goes on; then the exit code is 1.`,
		Example: `  ackmesh lite publish --parent chat --lite session-1 words.jsonl
  echo '{"say":"hello"}' | ackmesh lite publish --parent chat --lite session-1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.publishLite(cmd.Context(), f, args) },
	}
	a.liteFlags(cmd, &f.liteTarget)
	cmd.Flags().StringArrayVar(&f.attrs, "attr", nil, "NAME=VALUE: attribute to set on every event; may be repeated")
	return cmd
}

func (a *app) publishLite(ctx context.Context, f *litePublishFlags, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	attributes, err := parseAttributes(f.attrs)
	if err != nil {
		return err
	}
	in, _, err := a.openInput(args)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	start := time.Now()
	p := &litePublishing{flags: f, maker: eventMaker{attributes: attributes}, tell: a.tell}
	unbounded := f.target
	unbounded.timeout = 0 // it bounds each request, not all of them
	err = unbounded.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		p.client = ackmeshv1.NewLiteClient(conn)
		return p.run(ctx, readLines(ctx, in))
	})
	p.report()
	a.tell("%s\n", p.tally.summary(f.parent+" "+f.lite, time.Since(start)))
	if err == nil && p.tally.failed() {
		return reported{}
	}
	return err
}

// inputLine is a line of the input, or why there is none.
type inputLine struct {
	number int64
	text   []byte
	err    error
}

// readLines reads in the background, so that what is there can go in one request.
// Nothing ends a read of a terminal, so it is not waited for.
func readLines(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine, liteBatchEvents)
	go func() {
		defer close(lines)
		r := newLineReader(in)
		for {
			text, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			line := inputLine{r.number, append([]byte(nil), text...), err}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.Is(err, errLongLine) {
				return
			}
		}
	}()
	return lines
}

// litePublishing is one run of "ackmesh lite publish".
type litePublishing struct {
	flags  *litePublishFlags
	client ackmeshv1.LiteClient
	maker  eventMaker
	tally  tally
	tell   func(format string, args ...any)

	numbers []int64 // of the events of the next request
	events  []*ackmeshv1.EventMeshFrame
	bytes   int
}

// run publishes all lines, one request after another, so that they keep their
// order.
func (p *litePublishing) run(ctx context.Context, lines <-chan inputLine) error {
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return errors.Join(p.send(ctx), p.tally.stopped())
			}
			if err := p.line(line); err != nil {
				return err
			}
		case <-ctx.Done():
			return errors.New("interrupted: the lines that follow were not published")
		}
		if len(lines) > 0 && len(p.events) < liteBatchEvents && p.bytes < liteBatchBytes {
			continue
		}
		if err := p.send(ctx); err != nil {
			return err
		}
		p.report()
		if err := p.tally.stopped(); err != nil {
			return err
		}
	}
}

// line makes an event of a line. An error is one that the lines that follow would
// meet too.
func (p *litePublishing) line(line inputLine) error {
	switch {
	case errors.Is(line.err, errLongLine):
		p.tally.bad(line.number, line.err)
		return nil
	case line.err != nil:
		return line.err
	case len(line.text) == 0:
		return nil
	}
	f, err := p.maker.event(line.text)
	if err != nil {
		p.tally.bad(line.number, err)
		return nil
	}
	p.numbers = append(p.numbers, line.number)
	p.events = append(p.events, frameMessage(&f))
	p.bytes += len(line.text)
	return nil
}

func frameMessage(f *frame.Frame) *ackmeshv1.EventMeshFrame {
	m := &ackmeshv1.EventMeshFrame{Data: f.Data, Attributes: make(map[string]string, len(f.Attributes))}
	for _, attr := range f.Attributes {
		m.Attributes[attr.Name] = attr.Value
	}
	return m
}

// send publishes what was gathered.
func (p *litePublishing) send(ctx context.Context) error {
	if len(p.events) == 0 {
		return nil
	}
	ctx, cancel := p.flags.bounded(ctx)
	defer cancel()
	res, err := p.client.PublishLite(ctx, &ackmeshv1.PublishLiteRequest{Parent: p.flags.parent, Lite: p.flags.lite, Events: p.events})
	if n := len(res.GetEvents()); err == nil && n != len(p.numbers) {
		err = fmt.Errorf("the server answered for %d of %d events", n, len(p.numbers))
	}
	for i, number := range p.numbers {
		fate := err
		if err == nil {
			fate = status.FromProto(res.GetEvents()[i].GetStatus()).Err()
		}
		p.tally.answered(number, fate)
	}
	p.numbers, p.events, p.bytes = p.numbers[:0], nil, 0
	return err
}

// report tells the failures since the last time.
func (p *litePublishing) report() {
	for _, line := range p.tally.takeReports() {
		p.tell("%s\n", line)
	}
}
