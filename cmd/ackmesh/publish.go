package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
)

// publishFlags are those of "ackmesh publish".
type publishFlags struct {
	clientFlags
	topic   string
	keyAttr string
	attrs   []string
}

// publishCommand is "ackmesh publish".
func (a *app) publishCommand() *cobra.Command {
	f := new(publishFlags)
	cmd := &cobra.Command{
		Use:   "publish --topic TOPIC [FILE|-]",
		Short: "Publish JSON lines",
		Long: `Publish the lines of a file, or of standard input. Each line is a CloudEvent in
JSON (an object with a specversion), or any other JSON, which becomes the data of
an event of type ` + wrappedType + `. Empty lines are left out.

A bad line is told with its number and the rest goes on; then the exit code is 1.`,
		Example: `  ackmesh publish --topic flights --key-attr origin flights.jsonl
  echo '{"hello":"world"}' | ackmesh publish --topic greetings --attr type=greeting`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes one FILE at most, but got %d", cmd.CommandPath(), len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.publish(cmd.Context(), f, args) },
	}
	cmd.Flags().StringVar(&f.topic, "topic", "", "topic to publish to")
	cmd.Flags().StringVar(&f.keyAttr, "key-attr", "", "attribute, or member of the JSON data, that becomes the partition key")
	cmd.Flags().StringArrayVar(&f.attrs, "attr", nil, "NAME=VALUE: attribute to set on every event; may be repeated")
	a.clientFlags(cmd, &f.clientFlags)
	return cmd
}

func (a *app) publish(ctx context.Context, f *publishFlags, args []string) error {
	if err := needTopic(f.topic); err != nil {
		return err
	}
	attributes, err := parseAttributes(f.attrs)
	if err != nil {
		return err
	}
	in, size, err := a.openInput(args)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	client, err := a.dial(ctx, &f.clientFlags, ackmesh.Config{})
	if err != nil {
		return err
	}
	start := time.Now()
	p := &publishing{
		topic: f.topic, client: client, lines: newLineReader(in),
		maker:    eventMaker{attributes: attributes, keyAttr: f.keyAttr},
		progress: newProgress(a.errOut, a.terminal, size, start),
		tell:     a.tell,
	}
	err = errors.Join(atServer(f.addr, p.run(ctx)), client.Close())
	a.tell("%s\n", p.tally.summary(f.topic, time.Since(start)))
	if err == nil && p.tally.failed() {
		return reported{}
	}
	return err
}

// openInput opens the file that was named, or standard input. size is 0 where
// it is not known.
func (a *app) openInput(args []string) (in io.ReadCloser, size int64, err error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(a.in), 0, nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	if info.IsDir() {
		return nil, 0, errors.Join(fmt.Errorf("%s is a directory", args[0]), file.Close())
	}
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	return file, size, nil
}

// publishing is one run of the command.
type publishing struct {
	topic    string
	client   *ackmesh.Client
	lines    *lineReader
	maker    eventMaker
	progress *progress
	tally    tally
	tell     func(format string, args ...any)
}

// lastLook is how long, after an interrupt, a read is waited for that may never
// end: nothing ends a read of a terminal.
const lastLook = 200 * time.Millisecond

// run publishes all lines and waits for the answers. It returns what kept it from
// going on.
func (p *publishing) run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- p.readAll(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(lastLook):
			err = ctx.Err()
		}
	}
	if flushErr := p.client.Flush(context.WithoutCancel(ctx)); flushErr != nil {
		err = errors.Join(err, flushErr)
	}
	if err == nil { // the last answers came after the last line was read
		err = p.tally.stopped()
	}
	p.progress.clear()
	p.report()
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted: the lines that follow were not published")
	}
	return err
}

// readAll publishes line after line until the end, ctx's end, or a failure that
// the lines that follow would meet too.
func (p *publishing) readAll(ctx context.Context) error {
	for {
		if err := p.tally.stopped(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := p.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLongLine):
			p.tally.bad(p.lines.number, err)
		case err != nil:
			return fmt.Errorf("read line %d: %w", p.lines.number+1, err)
		case len(text) > 0:
			if err := p.line(ctx, p.lines.number, text); err != nil {
				return err
			}
		}
		p.look()
	}
}

// line publishes one line.
func (p *publishing) line(ctx context.Context, number int64, text []byte) error {
	f, err := p.maker.event(text)
	if err != nil {
		p.tally.bad(number, err)
		return nil
	}
	event := ackmesh.Event{Attributes: f.Attributes, Data: f.Data}
	err = p.client.PublishAsync(ctx, p.topic, &event, func(r ackmesh.Result) { p.tally.answered(number, r.Err) })
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.InvalidArgument:
		p.tally.bad(number, err)
		return nil
	default:
		return err
	}
}

// look tells what has failed and draws the progress.
func (p *publishing) look() {
	if p.tally.hasReports() {
		p.progress.clear()
		p.report()
	}
	p.progress.update(time.Now(), p.tally.published(), p.lines.size)
}

// report tells the failures since the last time.
func (p *publishing) report() {
	for _, line := range p.tally.takeReports() {
		p.tell("%s\n", line)
	}
}
