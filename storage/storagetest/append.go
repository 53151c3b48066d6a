package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
)

var appendCases = []testCase{
	{name: "Append/IsThereOnce", run: appendIsThereOnce},
	{name: "Append/NothingToAppend", run: appendNothing},
	{name: "Append/LeavesCallersMemoryAfterDone", run: appendLeavesMemory},
	{name: "Append/EndedContext", run: appendEndedContext},
	{name: "Append/MissingTopic", run: appendMissingTopic},
	{name: "Append/TooLarge", run: appendTooLarge},
}

// appendIsThereOnce: what was reported is at its place, once, and nothing
// else.
func appendIsThereOnce(c *env) {
	t := c.topic(3)
	var sent []*fate
	for i, n := 0, 0; i < 30; i++ {
		var events []storage.Event
		for range 1 + i*7%23 {
			e := storage.Event{Frame: numbered("a", n)}
			if n%3 > 0 {
				e.Key = fmt.Sprint("key", n%11)
			}
			events, n = append(events, e), n+1
		}
		sent = append(sent, c.send(t.Name, events))
	}
	c.wantTheOnly(t, storedInOrder(c, sent))
}

// storedInOrder waits for appends of one caller and wants offsets to rise in
// each partition.
func storedInOrder(c *env, sent []*fate) (list []stored) {
	c.Helper()
	last := map[string]int64{}
	for _, f := range sent {
		for _, s := range f.stored(c) {
			if before, ok := last[s.partition]; ok && s.offset <= before {
				c.Fatalf("partition %q: offset %d was given after %d to one caller", s.partition, s.offset, before)
			}
			last[s.partition] = s.offset
			list = append(list, s)
		}
	}
	return list
}

// appendNothing: without events, either an error or one report of nothing.
func appendNothing(c *env) {
	t := c.topic(1)
	if f := c.send(t.Name, nil); f.refused == nil {
		f.wait(c)
	}
	c.wantTheOnly(t, c.fill(t.Name, "", "a", 1))
}

// appendLeavesMemory: once done was called, the memory of the events is the
// caller's again. Under the race detector a late reader is found as well.
func appendLeavesMemory(c *env) {
	t := c.topic(1)
	var want []stored
	buf := make([]byte, 0, 64<<10)
	for i := range 40 {
		buf = buf[:0]
		var events []storage.Event
		var frames [][]byte
		for k := range 5 {
			frames = append(frames, numbered("a", 5*i+k))
			buf = append(buf, frames[k]...)
			events = append(events, storage.Event{Frame: buf[len(buf)-len(frames[k]):]})
		}
		for k, r := range c.appendAndOverwrite(t.Name, events, buf) {
			want = append(want, stored{r.Partition, r.Offset, frames[k]})
		}
	}
	c.wantTheOnly(t, want)
}

// appendAndOverwrite destroys the events in done.
func (c *env) appendAndOverwrite(topic string, events []storage.Event, buf []byte) []storage.Appended {
	c.Helper()
	f := c.newFate(topic, events)
	f.refused = c.bounded("Append", func(ctx context.Context) error {
		return c.b.Append(ctx, topic, events, func(results []storage.Appended, err error) {
			for i := range buf {
				buf[i] = 0xEE
			}
			f.report(results, err)
		})
	})
	return f.wait(c)
}

// appendEndedContext: an ended context may refuse; then nothing is appended.
func appendEndedContext(c *env) {
	t := c.topic(1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var accepted []*fate
	for i := range 20 {
		f := c.newFate(t.Name, []storage.Event{{Frame: numbered("a", i)}})
		f.refused = c.bounded("Append", func(context.Context) error { return f.send(ctx, c.b) })
		switch {
		case f.refused == nil:
			accepted = append(accepted, f)
		case !errors.Is(f.refused, context.Canceled):
			c.Errorf("Append with an ended context: %v, want context.Canceled", f.refused)
		}
	}
	list := storedInOrder(c, accepted)
	c.wantTheOnly(t, append(list, c.fill(t.Name, "", "b", 1)...))
}

// appendMissingTopic: made where the backend does that, else refused.
func appendMissingTopic(c *env) {
	name := topicName()
	f := c.send(name, []storage.Event{{Frame: numbered("a", 0)}})
	results, err := f.outcome(c)
	switch {
	case c.h.Has.AutoCreate:
		list := f.stored(c)
		t, err := c.describe(name)
		if err != nil {
			c.Fatalf("topic after the first append: %v", err)
		}
		c.wantTheOnly(t, list)
	case err == nil && len(results) == 1 && results[0].Err != nil:
		err = results[0].Err
		fallthrough
	default:
		if !errors.Is(err, storage.ErrTopicNotFound) {
			c.Errorf("append to a missing topic: %v, want ErrTopicNotFound", err)
		}
	}
}

// appendTooLarge: a frame above the limit is refused by name, and those after
// it are taken.
func appendTooLarge(c *env) {
	t := c.topic(1)
	f := c.send(t.Name, []storage.Event{{Frame: sized("large", c.h.MaxFrame+1)}})
	results, err := f.outcome(c)
	if err == nil {
		err = results[0].Err
	}
	if !errors.Is(err, storage.ErrTooLarge) {
		c.Errorf("append of %d bytes: %v, want ErrTooLarge", c.h.MaxFrame+1, err)
	}
	list := c.fill(t.Name, "", "a", 3)
	got := c.read(t.Name, list[0].partition, storage.Cursor, 3)
	c.wantRecords("after the refusal", got, list)
	if bytes.Contains(got[0].Frame, []byte("large")) {
		c.Errorf("the refused frame is in the log")
	}
}
