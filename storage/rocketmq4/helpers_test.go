package rocketmq4_test

import (
	"fmt"
	"testing"

	mesh "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/rocketmq4test"
	"github.com/ackmesh/ackmesh/storage/storagetest/logtest"
)

// patience is how long to wait for what must come.
const patience = logtest.Patience

// What the tests do to a log.
var (
	closeLog   = logtest.Close
	numbered   = logtest.Numbered
	id         = logtest.ID
	write      = logtest.Write
	writeKeyed = logtest.WriteKeyed
	poll       = logtest.Poll
	mustPoll   = logtest.MustPoll
	wantRange  = logtest.WantRange
)

// master is the broker of a cluster that has one.
const master = "broker-a"

// open opens a log on a fake cluster that is closed with the test.
func open(t *testing.T, c *fakebroker.Cluster, o rocketmq4.Options) *rocketmq4.Log {
	t.Helper()
	o.NameServers = c.NameServers()
	l := rocketmq4test.Open(t, o)
	logtest.CloseAfter(t, l)
	return l
}

// store puts events first to last-1 into a queue as another program does.
func store(t *testing.T, c *fakebroker.Cluster, topic string, queue, first, last int) {
	t.Helper()
	for n := first; n < last; n++ {
		if _, err := c.Append(master, topic, queue, remoting.Message{Body: numbered(n)}); err != nil {
			t.Fatal(err)
		}
	}
}

// at asks for what there is in the first queue of t.
func at(start int64) storage.PollRequest {
	return storage.PollRequest{Topic: "t", Partition: master + ":0", Start: start, Wait: patience}
}

// readIDs reads n events from an offset on, and lists their ids.
func readIDs(t *testing.T, l storage.Backend, start int64, n int) (ids []string) {
	t.Helper()
	for len(ids) < n {
		b := mustPoll(t, l, at(start))
		if len(b.Records) == 0 {
			t.Fatalf("after %d of %d events nothing comes at %d", len(ids), n, start)
		}
		for _, r := range b.Records {
			ids = append(ids, id(r.Frame))
		}
		if start != storage.Cursor {
			start = b.Next
		}
	}
	return ids
}

func wantIDs(t *testing.T, got []string, first int) {
	t.Helper()
	for i, id := range got {
		if id != fmt.Sprint(first+i) {
			t.Fatalf("event %d is %s, want %d: %q", i, id, first+i, got)
		}
	}
}

// eventually wants f to become nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	mesh.Eventually(t, patience, f)
}
