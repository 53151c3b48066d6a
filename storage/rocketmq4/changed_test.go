package rocketmq4_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/observe"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// topicID is the identity of t.
func topicID(t *testing.T, l *rocketmq4.Log) string {
	t.Helper()
	topic, err := l.EnsureTopic(t.Context(), "t")
	if err != nil {
		t.Fatalf("the topic: %v", err)
	}
	return topic.ID
}

// A topic that others delete and make again under a reader, and that has grown
// past its position before the next Poll, is another one: who knows the old
// identity is told, and nothing of the new one is taken for the old.
func TestRecreatedUnderReader(t *testing.T) {
	for name, grown := range map[string]int{"smaller": 4, "as large": 10, "grown past": 200} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, fakebroker.Options{})
			c.CreateTopic("t", 1)
			told := make(chan string, 9)
			l := open(t, c, rocketmq4.Options{Observe: observe.Broker{TopicChanged: func(topic, was, is string) { told <- topic + was + is }}})
			store(t, c, "t", 0, 0, 10)
			old := topicID(t, l)
			wantIDs(t, readIDs(t, l, storage.Cursor, 10), 0)
			c.DeleteTopic("t")
			c.CreateTopic("t", 1)
			store(t, c, "t", 0, 1000, 1000+grown)
			waitUntil(t, time.Now().Add(1100*time.Millisecond)) // bounds are believed for a second
			req := at(storage.Cursor)
			req.TopicID = old
			if b, err := poll(t, l, req); !errors.Is(err, storage.ErrTopicChanged) {
				t.Fatalf("a reader of the old topic: %v, %d records", err, len(b.Records))
			}
			is := topicID(t, l)
			if is == old || <-told != "t"+old+is {
				t.Errorf("the identity was %s and is %s", old, is)
			}
			if _, ok := l.Cursor("t", master+":0"); ok {
				t.Error("the old pull offset is left")
			}
			wantIDs(t, readIDs(t, l, storage.Cursor, grown), 1000)
		})
	}
}

// The same while no log is open.
func TestRecreatedWhileClosed(t *testing.T) {
	for name, grown := range map[string]int{"smaller": 4, "grown past": 200} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, fakebroker.Options{})
			c.CreateTopic("t", 1)
			dir := t.TempDir()
			l := open(t, c, rocketmq4.Options{Dir: dir})
			store(t, c, "t", 0, 0, 10)
			old := topicID(t, l)
			readIDs(t, l, storage.Cursor, 10)
			closeLog(t, l)
			c.DeleteTopic("t")
			c.CreateTopic("t", 1)
			store(t, c, "t", 0, 1000, 1000+grown)
			l = open(t, c, rocketmq4.Options{Dir: dir})
			if is := topicID(t, l); is == old {
				t.Errorf("the identity is %s still", is)
			}
			wantIDs(t, readIDs(t, l, storage.Cursor, grown), 1000)
		})
	}
}

// What stays the same keeps its identity: over restarts, retention past all
// that was known, and lost files.
func TestIdentityStays(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	dir := t.TempDir()
	l := open(t, c, rocketmq4.Options{Dir: dir})
	store(t, c, "t", 0, 0, 50)
	id := topicID(t, l)
	readIDs(t, l, storage.Cursor, 50)
	for name, change := range map[string]func(){
		"nothing":   func() {},
		"retention": func() { c.Trim(master, "t", 0, 50) },
		"more":      func() { store(t, c, "t", 0, 50, 60) },
		"damaged": func() {
			if err := os.WriteFile(filepath.Join(dir, "topics"), []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"lost": func() {
			for _, name := range []string{"topics", "topics.bak"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
		},
	} {
		closeLog(t, l)
		change()
		l = open(t, c, rocketmq4.Options{Dir: dir})
		if is := topicID(t, l); is != id {
			t.Errorf("%s: the identity was %s and is %s", name, id, is)
		}
	}
	wantIDs(t, readIDs(t, l, 50, 10), 50)
}

// A log that lost its end, and has other messages there since, is another one.
// One that lost it and has no others yet says where it ends.
func TestTruncated(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	store(t, c, "t", 0, 0, 100)
	id := topicID(t, l)
	readIDs(t, l, storage.Cursor, 100)
	c.Truncate(master, "t", 0, 60)
	waitUntil(t, time.Now().Add(1100*time.Millisecond))
	wantRange(t, l, at(storage.Cursor), 100, 0, 60)
	if is := topicID(t, l); is != id {
		t.Errorf("the identity was %s and is %s", id, is)
	}
	// Corrected down to the end, it goes on there with what is new.
	if err := l.Seek(t.Context(), "t", master+":0", 60); err != nil {
		t.Fatal(err)
	}
	store(t, c, "t", 0, 1060, 1120)
	wantIDs(t, readIDs(t, l, storage.Cursor, 60), 1060)
	if is := topicID(t, l); is != id {
		t.Errorf("the identity was %s and is %s", id, is)
	}
	// Not noticed before it had grown again.
	c.Truncate(master, "t", 0, 50)
	store(t, c, "t", 0, 2050, 2200)
	req := at(storage.Cursor)
	req.TopicID = id
	if b, err := poll(t, l, req); !errors.Is(err, storage.ErrTopicChanged) {
		t.Errorf("a log that was cut and has grown again: %v, %d records from %d", err, len(b.Records), b.Start)
	}
}

// A topic whose broker is down is not a missing one: nothing is forgotten, and
// it is not made elsewhere.
func TestBrokerDownIsNotMissing(t *testing.T) {
	c := cluster(t, fakebroker.Options{Brokers: []string{"a", "b"}})
	dir := t.TempDir()
	l := open(t, c, rocketmq4.Options{Dir: dir, AutoCreate: true, Partitions: 1})
	id := topicID(t, l) // at a
	if _, err := c.Append("a", "t", 0, remoting.Message{Body: numbered(0)}); err != nil {
		t.Fatal(err)
	}
	req := storage.PollRequest{Topic: "t", Partition: "a:0", Start: storage.Cursor, Wait: patience}
	mustPoll(t, l, req)
	if err := c.Stop("a"); err != nil {
		t.Fatal(err)
	}
	req.Wait = 0
	waitUntil(t, time.Now().Add(1100*time.Millisecond))
	check := func(l *rocketmq4.Log) {
		t.Helper()
		if _, err := poll(t, l, req); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("poll: %v", err)
		}
		if _, err := l.Topic(t.Context(), "t"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("topic: %v", err)
		}
		if _, err := l.EnsureTopic(t.Context(), "t"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("ensure: %v", err)
		}
		if err := l.DeleteTopic(t.Context(), "t"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("delete: %v", err)
		}
	}
	check(l)
	closeLog(t, l)
	l = open(t, c, rocketmq4.Options{Dir: dir, AutoCreate: true, Partitions: 1})
	check(l)
	if err := c.Restart("a"); err != nil {
		t.Fatal(err)
	}
	if is := topicID(t, l); is != id {
		t.Errorf("the identity was %s and is %s", id, is)
	}
	if next, ok := l.Cursor("t", "a:0"); !ok || next != 1 {
		t.Errorf("the pull offset is %d, %v", next, ok)
	}
}

// Messages that a broker does not find for a moment are waited for, though it
// skips them.
func TestSkippedMessagesAreWaitedFor(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	store(t, c, "t", 0, 0, 10)
	wantIDs(t, readIDs(t, l, 0, 10), 0)
	skip := c.Fault(fakebroker.Fault{Code: fakebroker.CodePull, Before: func(_ context.Context, req *remoting.Command) *remoting.Command {
		if req.Fields["queueOffset"] != "5" {
			return nil
		}
		return &remoting.Command{Code: remoting.CodePullRetry, Fields: map[string]string{"nextBeginOffset": "8", "minOffset": "0", "maxOffset": "10"}}
	}})
	req := at(5)
	req.Wait = 0
	for range 3 {
		if b := mustPoll(t, l, req); len(b.Records) > 0 || b.Next != 5 {
			t.Fatalf("%d records, next is %d", len(b.Records), b.Next)
		}
	}
	skip.Remove()
	wantIDs(t, readIDs(t, l, 5, 5), 5)
}

// A broker that refuses what is within its own bounds is not asked for ever.
func TestContradiction(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	store(t, c, "t", 0, 0, 10)
	wantIDs(t, readIDs(t, l, 0, 10), 0)
	refuse := c.Fault(fakebroker.Fault{Code: fakebroker.CodePull, Before: func(context.Context, *remoting.Command) *remoting.Command {
		return &remoting.Command{Code: remoting.CodePullOffsetMoved, Fields: map[string]string{"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "10"}}
	}})
	was := c.Requests(fakebroker.CodePull)
	if _, err := poll(t, l, at(5)); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a broker that contradicts itself: %v", err)
	}
	if n := c.Requests(fakebroker.CodePull) - was; n > 10 {
		t.Errorf("it was asked %d times", n)
	}
	refuse.Remove()
	wantIDs(t, readIDs(t, l, 5, 5), 5)
}

// While there is no master, its slave is read.
func TestSlaves(t *testing.T) {
	c := cluster(t, fakebroker.Options{Slaves: true})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	store(t, c, "t", 0, 0, 40)
	wantIDs(t, readIDs(t, l, storage.Cursor, 40), 0)
	suggest := c.Fault(fakebroker.Fault{Code: fakebroker.CodePull, After: func(_, res *remoting.Command) {
		if res.Fields != nil {
			res.Fields["suggestWhichBrokerId"] = "1"
		}
	}})
	store(t, c, "t", 0, 40, 100)
	wantIDs(t, readIDs(t, l, 0, 100), 0)
	wantIDs(t, readIDs(t, l, 0, 100), 0)
	if c.FromSlaves() == 0 {
		t.Error("the slave was not read, though that was suggested")
	}
	// One that lags behind is not the last word.
	c.Lag(30)
	wantIDs(t, readIDs(t, l, 50, 50), 50)
	c.Lag(0)
	suggest.Remove()
	if err := c.Stop(master); err != nil {
		t.Fatal(err)
	}
	store(t, c, "t", 0, 100, 110)
	eventually(t, func() error {
		_, err := l.Topic(t.Context(), "t")
		return err
	})
	was := c.FromSlaves()
	wantIDs(t, readIDs(t, l, 90, 20), 90)
	if c.FromSlaves() == was {
		t.Error("the slave was not read, though there is no master")
	}
}
