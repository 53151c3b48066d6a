package diskguard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/badger"
)

// childEnv names the directory for a child process that acks until it is told
// to end.
const childEnv = "ACKMESH_DISKGUARD_TEST_DIR"

// childKeys is how many keys it acks.
const childKeys = 200

// line is what the child tells on its standard output.
type line struct {
	// Acked is how many acks were confirmed so far.
	Acked int64
	// Refused is the error of the last ack, and of health.
	Refused, Health string
	// Confirmed is at the end: the highest confirmed position of each key.
	Confirmed map[string]int64
	// Err is what went wrong.
	Err string
}

// runChild is the child's main; false when this is not the child.
func runChild() bool {
	dir := os.Getenv(childEnv)
	if dir == "" {
		return false
	}
	c := &child{confirmed: map[string]int64{}, out: json.NewEncoder(os.Stdout)}
	if err := c.run(dir); err != nil {
		c.say(line{Err: err.Error()})
		os.Exit(1)
	}
	return true
}

type child struct {
	guard *Guard
	store *badger.Store

	outMu sync.Mutex
	out   *json.Encoder

	acked     atomic.Int64
	mu        sync.Mutex
	confirmed map[string]int64
}

func (c *child) say(l line) {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	_ = c.out.Encode(l) // the parent sees what is missing
}

func (c *child) run(dir string) (err error) {
	offsets := filepath.Join(dir, "offsets")
	sizes, err := badger.SizesOf(offsets)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if c.guard, err = New(Options{Dir: dir, Margin: sizes.Margin(), Ballast: sizes.Needs(), Logger: log}); err != nil {
		return err
	}
	c.guard.Start()
	defer c.guard.Stop()
	c.store, err = badger.Open(offsets, badger.Options{Writable: c.guard.Check, Room: c.guard.Room, Logger: log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() { c.ack(ctx, w) })
	}
	c.report(os.Stdin)
	cancel()
	wg.Wait()
	err = c.store.Close()
	c.say(line{Acked: c.acked.Load(), Confirmed: c.confirmed})
	return err
}

// report answers each line of input with the state of things.
func (c *child) report(in io.Reader) {
	for s := bufio.NewScanner(in); s.Scan(); {
		l := line{Acked: c.acked.Load()}
		if err := c.store.Healthy(); err != nil {
			l.Health = err.Error()
		}
		if err := offsetstore.Commit(context.Background(), c.store, ackOf("probe", c.acked.Load())); err != nil {
			l.Refused = err.Error()
		}
		c.say(l)
	}
}

func keyOf(name string) offsetstore.Key {
	return offsetstore.Key{Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: name}, Partition: "0"}
}

func ackOf(name string, position int64) *offsetstore.Txn {
	return &offsetstore.Txn{
		Puts: []offsetstore.Put{{Key: keyOf(name), Value: offsetstore.Value{Epoch: 1, Position: position}}},
		Sets: []offsetstore.Record{{Space: "s", Key: name, Value: make([]byte, 300)}},
	}
}

// ack acks the keys of a worker for as long as ctx lasts, also on a full disk.
func (c *child) ack(ctx context.Context, worker int) {
	for position := int64(1); ctx.Err() == nil; position++ {
		name := fmt.Sprint((int64(worker) + 64*position) % childKeys)
		err := offsetstore.Commit(context.Background(), c.store, ackOf(name, position))
		switch {
		case err == nil:
			c.acked.Add(1)
			c.mu.Lock()
			c.confirmed[name] = max(c.confirmed[name], position)
			c.mu.Unlock()
		case !errors.Is(err, offsetstore.ErrReadOnly) || !errors.Is(err, ErrFull):
			c.say(line{Err: "ack: " + err.Error()})
			return
		}
	}
}
