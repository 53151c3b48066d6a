package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ackmesh/ackmesh/storage"
)

var nameCases = []testCase{
	{name: "Name/Unusual", needs: hasAdmin, run: namesUnusual},
	{name: "Name/Illegal", needs: hasAdmin, run: namesIllegal},
}

// unusualNames are legal, and some of them collide where names are joined,
// escaped badly, or used as names of files.
var unusualNames = []string{
	"a", "A", "a#b", "a/b", "a:b", "a_b", "a%2Fb", "a\\b", "a|b", "a b", "a.b",
	"|", "#", "/", ":", " ", ".", "..", "-", "%", "*", "../a", "a/", "/a", "a#", "#a", "a#b#0", "a/b/0",
	"ключ", "鍵🔑", "e\u0301", "\u00e9", "\u200b",
	strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("ü", 127),
}

// namesUnusual: every one of them is a topic of its own, or refused as
// invalid where the backend does not take any name.
func namesUnusual(c *env) {
	var topics []storage.Topic
	refused := 0
	for _, name := range unusualNames {
		switch err := c.createAnew(name); {
		case err == nil:
			topics = append(topics, c.mustDescribe(name))
		case errors.Is(err, storage.ErrInvalid) && !c.h.Has.AnyName:
			refused++
		default:
			c.Errorf("CreateTopic %q: %v", name, err)
		}
	}
	if !c.h.Has.AnyName && refused == 0 {
		c.Errorf("the backend is not declared to take any name, but took all of %q", unusualNames)
	}
	c.wantApart(topics)
	for _, t := range topics {
		c.deleteTopic(t.Name)
	}
}

// createAnew makes a topic of one partition; what an earlier run left is
// removed.
func (c *env) createAnew(name string) error {
	c.Helper()
	err := c.create(name, 1)
	if errors.Is(err, storage.ErrTopicExists) && c.h.MakeTopic != nil {
		c.deleteTopic(name)
		c.eventually("CreateTopic after DeleteTopic", func() error { err = c.create(name, 1); return err })
	}
	return err
}

func (c *env) mustDescribe(name string) (t storage.Topic) {
	c.Helper()
	c.eventually(fmt.Sprintf("Topic %q after it was made", name), func() (err error) {
		t, err = c.describe(name)
		return err
	})
	return t
}

// wantApart wants topics to keep records and pull offsets apart.
func (c *env) wantApart(topics []storage.Topic) {
	c.Helper()
	var lists [][]stored
	for i, t := range topics {
		lists = append(lists, c.fill(t.Name, "", fmt.Sprint("topic", i), 1+i%3))
	}
	list := c.listTopics()
	for i, t := range topics {
		if !listed(list, t) {
			c.Errorf("topic %q is not listed", t.Name)
		}
		c.wantNoCursor(t.Name, t.Partitions[0])
		c.wantTheOnlyNow(t, lists[i])
		c.seek(t.Name, t.Partitions[0], lists[i][0].offset)
	}
	for i, t := range topics {
		c.wantCursor(t.Name, t.Partitions[0], lists[i][0].offset)
	}
}

// namesIllegal: they are refused everywhere and make nothing.
func namesIllegal(c *env) {
	for _, name := range []string{"", strings.Repeat("x", 256), strings.Repeat("ü", 128), "a\x00b", "a\nb", "\x7f", "a\u0085", "\xff", "a\xc3"} {
		if err := c.create(name, 1); !errors.Is(err, storage.ErrInvalid) {
			c.Errorf("CreateTopic %q: %v, want ErrInvalid", name, err)
		}
		if _, err := c.ensure(name); err == nil {
			c.Errorf("EnsureTopic %q is taken", name)
		}
		if f := c.send(name, []storage.Event{{Frame: numbered("a", 0)}}); f.refused == nil {
			if results, err := f.outcome(c); err == nil && results[0].Err == nil {
				c.Errorf("Append to %q is taken", name)
			}
		}
		if err := c.bounded("Poll", func(ctx context.Context) error {
			return c.b.Poll(ctx, storage.PollRequest{Topic: name, Partition: "0"}, new(storage.Batch))
		}); err == nil {
			c.Errorf("Poll of %q is taken", name)
		}
		for _, t := range c.listTopics() {
			if t.Name == name {
				c.Errorf("%q is listed", name)
			}
		}
	}
}
