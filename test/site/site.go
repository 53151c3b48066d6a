// Package site says where the servers of a suite have their log, so that one
// suite holds on the embedded log and on a real broker.
package site

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/tracecheck"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/traffic"
)

// Site is a log and what is peculiar to it. The zero value is the embedded log.
type Site struct {
	// Flags of `ackmesh serve` that name the log.
	Flags []string
	// MakeTopic makes a topic, and the one of its dead letters, each with so
	// many partitions, and waits until a server finds them. nil: servers make
	// topics on first use, and each data directory has its own.
	MakeTopic func(t testing.TB, topic string, partitions int)
	// Repeats: the log does not know an event again, so one that is published
	// again because nobody knew its fate may be in it twice.
	Repeats bool
	// Pops: the log hands records out (POP). What comes again may be at another
	// place, positions are not told, and only the event says which it is.
	Pops bool
}

// Embedded is the log of the server itself.
var Embedded = Site{}

// made numbers topics: a broker keeps those of earlier suites.
var made atomic.Int64

// Topic is the name of a topic with so many partitions that nobody has used.
func (s Site) Topic(t testing.TB, name string, partitions int) string {
	t.Helper()
	if s.MakeTopic == nil {
		return name
	}
	topic := fmt.Sprintf("%s-%d", name, made.Add(1))
	s.MakeTopic(t, topic, partitions)
	return topic
}

// Start starts a server on a data directory. Topics that it makes have so many
// partitions.
func (s Site) Start(t testing.TB, data string, partitions int, flags ...string) *process.Server {
	t.Helper()
	all := append([]string{"--topics.partitions", fmt.Sprint(partitions)}, s.Flags...)
	return process.Start(t, data, append(all, flags...)...)
}

// Check holds a trace against every promise that the site can keep.
func (s Site) Check(tr *tracecheck.Trace) error {
	switch {
	case s.Pops:
		return tracecheck.CheckEvents(tr)
	case s.Repeats:
		return tracecheck.Check(tr, tracecheck.ErrBrokeOnce)
	}
	return tracecheck.Check(tr)
}

// AwaitFinished waits until every subscriber has finished everything in the
// topics. It fails when nothing has happened for patience.
func (s Site) AwaitFinished(ctx context.Context, run *traffic.Run, admin pb.AdminClient, patience time.Duration, topics ...string) error {
	if !s.Pops {
		return traffic.AwaitFinished(ctx, admin, patience, topics...)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	length, since := -1, time.Now()
	for {
		tr := run.Rec.Trace()
		err := tracecheck.Unfinished(tr)
		if err == nil {
			return nil
		}
		if len(tr.Events) > length {
			length, since = len(tr.Events), time.Now()
		}
		if time.Since(since) > patience {
			return fmt.Errorf("nothing has happened for %v: %w", patience, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}
