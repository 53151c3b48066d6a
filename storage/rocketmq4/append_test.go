package rocketmq4_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// sending appends events one by one, without waiting.
type sending struct {
	mu      sync.Mutex
	fates   []error
	offsets []int64
	wg      sync.WaitGroup
}

func (s *sending) send(t *testing.T, l *rocketmq4.Log, frame []byte) {
	t.Helper()
	s.wg.Add(1)
	err := l.Append(t.Context(), "t", []storage.Event{{Frame: frame}}, func(r []storage.Appended, err error) {
		defer s.wg.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			err = r[0].Err
			s.offsets = append(s.offsets, r[0].Offset)
		}
		s.fates = append(s.fates, err)
	})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
}

// What is appended while the broker is down waits for it, and keeps its order.
func TestAppendWaitsForBroker(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{RequestTimeout: time.Second})
	write(t, l, "t", 0, 1)
	if err := c.Stop(master); err != nil {
		t.Fatal(err)
	}
	// A send on a connection that nobody knows to be broken fails at once.
	if _, _, err := l.Bounds(t.Context(), "t", master+":0"); !errors.Is(err, storage.ErrUnknown) {
		t.Fatalf("bounds while the broker is down: %v", err)
	}
	s := &sending{}
	for n := range 50 {
		s.send(t, l, numbered(1+n))
	}
	if err := c.Restart(master); err != nil {
		t.Fatal(err)
	}
	s.wg.Wait()
	for n, err := range s.fates {
		if err != nil || s.offsets[n] != int64(1+n) {
			t.Fatalf("event %d: %v, at %d", n, err, s.offsets[n])
		}
	}
	wantIDs(t, readIDs(t, l, 0, 51), 0)
}

// A send of which nobody knows whether it was carried out fails, and is not
// made a second time. Others before and after it are not touched.
func TestAppendOfOpenFate(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{RequestTimeout: 300 * time.Millisecond})
	write(t, l, "t", 0, 1)
	silent := c.Fault(fakebroker.Fault{Code: fakebroker.CodeSend, Count: 1, Before: func(ctx context.Context, _ *remoting.Command) *remoting.Command {
		<-ctx.Done()
		return nil
	}})
	if err := appendOne(t, l, numbered(1)); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("an append without an answer: %v", err)
	}
	silent.Remove()
	write(t, l, "t", 2, 3)
	if n := c.Requests(fakebroker.CodeSend); n != 3 {
		t.Errorf("%d sends for three events", n)
	}
}

// A broker that is too busy is asked again; one that stores less safely than it
// is set to has not stored.
func TestAppendRefusals(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	answer := func(code int, remark string) *fakebroker.Fault {
		return c.Fault(fakebroker.Fault{Code: fakebroker.CodeSend, Count: 2, Before: func(context.Context, *remoting.Command) *remoting.Command {
			return &remoting.Command{Code: code, Remark: remark}
		}})
	}
	busy := answer(remoting.CodeSystemBusy, "[TIMEOUT_CLEAN_QUEUE]broker busy")
	write(t, l, "t", 0, 1)
	busy.Remove()
	for code, want := range map[int]error{
		remoting.CodeFlushDiskTimeout: storage.ErrUnavailable, remoting.CodeSlaveNotAvailable: storage.ErrUnavailable,
		remoting.CodeMessageIllegal: storage.ErrTooLarge, remoting.CodeSystemError: storage.ErrUnavailable, remoting.CodeTopicNotExist: storage.ErrTopicNotFound,
	} {
		refuse := answer(code, "refused")
		if err := appendOne(t, l, numbered(1)); !errors.Is(err, want) {
			t.Errorf("code %d: %v, want %v", code, err, want)
		}
		refuse.Remove()
	}
	denied := answer(remoting.CodeSystemError, "org.apache.rocketmq.acl.common.AclException: no permission")
	if err := appendOne(t, l, numbered(1)); err == nil || !strings.Contains(err.Error(), "rocketmq4.access-key") {
		t.Errorf("refused by access control: %v", err)
	}
	denied.Remove()
	write(t, l, "t", 1, 2)
	wantIDs(t, readIDs(t, l, 0, 2), 0)
}

func appendOne(t *testing.T, l *rocketmq4.Log, frame []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results, err := storage.AppendWait(ctx, l, "t", []storage.Event{{Frame: frame}})
	if err == nil {
		err = results[0].Err
	}
	return err
}

// One event of a batch that the broker finds too large fails alone.
func TestAppendTooLargeInBatch(t *testing.T) {
	c := cluster(t, fakebroker.Options{MaxMessage: 2000})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{})
	var events []storage.Event
	for n := range 5 {
		size := 100
		if n == 2 {
			size = 3000
		}
		events = append(events, storage.Event{Frame: storagetest.Frame(make([]byte, size), "id", fmt.Sprint(n))})
	}
	results, err := storage.AppendWait(t.Context(), l, "t", events)
	if err != nil {
		t.Fatal(err)
	}
	for n, r := range results {
		if (n == 2) != errors.Is(r.Err, storage.ErrTooLarge) || n != 2 && r.Err != nil {
			t.Errorf("event %d: %v", n, r.Err)
		}
	}
	if got := readIDs(t, l, 0, 4); fmt.Sprint(got) != "[0 1 3 4]" {
		t.Errorf("in the log are %v", got)
	}
}

// Events with keys wait for the broker of their queue; those without go to
// others.
func TestAppendWhileOneBrokerIsDown(t *testing.T) {
	c := cluster(t, fakebroker.Options{Brokers: []string{"a", "b"}})
	c.CreateTopic("t", 1)
	l := open(t, c, rocketmq4.Options{}.LookAgain(time.Millisecond))
	write(t, l, "t", 0, 1)
	if err := c.Stop("a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 * 130 { // two runs of events without a key
			r, err := storage.AppendWait(ctx, l, "t", []storage.Event{{Frame: numbered(1)}})
			if err == nil {
				err = r[0].Err
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := c.Restart("a"); err != nil {
		t.Fatal(err)
	}
}

// A topic that is missing and may not be made is told with the command that
// makes it.
func TestMissingTopicSaysWhatToCreate(t *testing.T) {
	for name, o := range map[string]struct {
		broker fakebroker.Options
		log    rocketmq4.Options
	}{
		"not allowed": {log: rocketmq4.Options{Partitions: 3}},
		"refused":     {broker: fakebroker.Options{NoCreate: true}, log: rocketmq4.Options{Partitions: 3, AutoCreate: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, o.broker)
			l := open(t, c, o.log)
			_, err := l.EnsureTopic(t.Context(), "orders_DLQ")
			want := "mqadmin updateTopic -n " + c.NameServers()[0] + " -c DefaultCluster -t orders_DLQ -r 3 -w 3"
			if !errors.Is(err, storage.ErrTopicNotFound) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	c := cluster(t, fakebroker.Options{})
	l := open(t, c, rocketmq4.Options{})
	for topic, cfg := range map[string]storage.TopicConfig{
		"a b": {}, "TBW102": {}, "%RETRY%g": {}, "rmq_sys_x": {}, strings.Repeat("x", 128): {}, "t": {Retention: time.Hour},
	} {
		if _, err := l.CreateTopic(t.Context(), topic, cfg); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("topic %q, %+v: %v", topic, cfg, err)
		}
	}
}

// Wrong settings are told when the log is opened.
func TestOpenRefuses(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	good := rocketmq4.Options{NameServers: c.NameServers(), Dir: t.TempDir()}
	for name, change := range map[string]func(*rocketmq4.Options){
		"no name server": func(o *rocketmq4.Options) { o.NameServers = nil },
		"no port":        func(o *rocketmq4.Options) { o.NameServers = []string{"host"} },
		"no directory":   func(o *rocketmq4.Options) { o.Dir = "" },
		"partitions":     func(o *rocketmq4.Options) { o.Partitions = 1025 },
		"record size":    func(o *rocketmq4.Options) { o.MaxRecordBytes = 1 },
		"batch size":     func(o *rocketmq4.Options) { o.BatchBytes = 1 },
		"queue size":     func(o *rocketmq4.Options) { o.QueueBytes = -1 },
		"timeout":        func(o *rocketmq4.Options) { o.RequestTimeout = -1 },
		"credentials":    func(o *rocketmq4.Options) { o.Credentials = &remoting.Credentials{AccessKey: "a"} },
	} {
		o := good
		change(&o)
		if l, err := rocketmq4.Open(t.Context(), o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err := rocketmq4.Open(t.Context(), good); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("without a name server: %v, %v", l, err)
	}
}
