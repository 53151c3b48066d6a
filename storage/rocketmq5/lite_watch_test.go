package rocketmq5

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/internal/gate"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// liteFake is a port to brokers that hold lite topics of one parent. Of port it
// has what they need.
type liteFake struct {
	port
	mu    sync.Mutex
	all   []queue
	came  map[queue][]string          // the lite topics of the messages of each queue
	lites map[string]map[string]int64 // by broker and lite topic: how many messages
	away  error
	lost  bool          // no queue holds any offset
	moved chan struct{} // closed, and made anew, when something changes
	pulls int           // watches under way
	// hidden messages are in their queue and not yet in their lite topic.
	hidden int64
}

func newLiteFake(queues ...queue) *liteFake {
	return &liteFake{all: queues, came: map[queue][]string{}, lites: map[string]map[string]int64{}, moved: make(chan struct{})}
}

func (f *liteFake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.moved)
	f.moved = make(chan struct{})
}

// put stores a message of a lite topic.
func (f *liteFake) put(q queue, lite string) {
	f.change(func() {
		f.came[q] = append(f.came[q], lite)
		if f.lites[q.broker] == nil {
			f.lites[q.broker] = map[string]int64{}
		}
		f.lites[q.broker][lite]++
	})
}

// putSlowly stores a message that is not in its lite topic until show is called.
func (f *liteFake) putSlowly(q queue, lite string) (show func()) {
	f.change(func() {
		f.came[q] = append(f.came[q], lite)
		f.hidden++
	})
	return func() {
		f.mu.Lock() // nobody is told
		defer f.mu.Unlock()
		f.hidden--
		if f.lites[q.broker] == nil {
			f.lites[q.broker] = map[string]int64{}
		}
		f.lites[q.broker][lite]++
	}
}

// ends is the end of a lite topic with what is hidden.
func (f *liteFake) ends(broker, lite string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lites[broker][lite] + f.hidden
}

func (f *liteFake) queues(context.Context, string) ([]queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all), f.away
}

func (f *liteFake) end(_ context.Context, q queue) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.came[q])), f.away
}

func (f *liteFake) liteBounds(_ context.Context, broker, _, lite string) (low, high int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return 0, f.lites[broker][lite], f.away
}

func (f *liteFake) readLite(_ context.Context, broker, _, lite string, offset int64, most int) (litePull, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	high := f.lites[broker][lite]
	res := litePull{next: offset, high: high, moved: offset > high}
	for res.next < high && len(res.list) < most {
		res.list = append(res.list, stored{offset: res.next})
		res.next++
	}
	return res, f.away
}

func (f *liteFake) watch(ctx context.Context, q queue, offset int64, wait time.Duration) (liteNews, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	f.mu.Lock()
	f.pulls++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.pulls--
		f.mu.Unlock()
	}()
	for {
		f.mu.Lock()
		list, away, lost, moved := f.came[q], f.away, f.lost, f.moved
		f.mu.Unlock()
		switch {
		case away != nil:
			return liteNews{}, away
		case lost:
			return liteNews{next: offset, lost: true}, nil
		case int64(len(list)) > offset:
			news := liteNews{next: int64(len(list))}
			for _, lite := range list[offset:] {
				name, stray := strings.CutPrefix(lite, "stray:")
				one := liteCame{lite: name}
				if !stray {
					one.end = f.ends(q.broker, name)
				}
				news.came = append(news.came, one)
				if stray {
					news.stray = append(news.stray, name)
				}
			}
			return news, nil
		}
		select {
		case <-moved:
		case <-timer.C:
			return liteNews{next: offset}, nil
		case <-ctx.Done():
			return liteNews{}, ctx.Err()
		}
	}
}

func (f *liteFake) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pulls
}

// liteRig is the lite topics of a log on a fake.
type liteRig struct {
	*lites
	t    *testing.T
	f    *liteFake
	said bytes.Buffer
}

func newLiteRig(t *testing.T, f *liteFake) *liteRig {
	t.Helper()
	r := &liteRig{t: t, f: f}
	l := &Log{gate: gate.New(errClosed()), port: f, opts: Options{Logger: slog.New(slog.NewTextHandler(&r.said, nil))}.withDefaults()}
	var err error
	if r.lites, err = newLites(l); err != nil {
		t.Fatal(err)
	}
	l.lite = r.lites
	t.Cleanup(func() {
		l.gate.End()
		l.wg.Wait()
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// reads reads a lite topic and wants n messages.
func (r *liteRig) reads(lite string, from int64, n int) {
	r.t.Helper()
	res, err := r.read(r.t.Context(), storage.PollRequest{Topic: "p", Partition: lite, Start: from})
	if err != nil || len(res.list) != n {
		r.t.Fatalf("a read of %s from %d gives %d messages, %v, want %d", lite, from, len(res.list), err, n)
	}
}

// awaits counts how often arrived is called.
func (r *liteRig) awaits(lite string, next int64) (rung *int, stop func()) {
	rung = new(int)
	return rung, r.await("p", lite, next, func() { *rung++ })
}

func wantRung(t *testing.T, what string, rung *int, n int) {
	t.Helper()
	synctest.Wait()
	if *rung != n {
		t.Errorf("%s: arrived was called %d times, want %d", what, *rung, n)
	}
}

var q0, q1 = queue{"p", "a", 0}, queue{"p", "a", 1}

// TestLiteWatch: who waits is told of his own lite topic at once, whichever queue
// it comes to, and one pull waits at each queue.
func TestLiteWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0, q1))
		r.f.put(q1, "x")
		r.reads("x", 0, 1)
		r.reads("x", 1, 0)
		r.reads("y", 0, 0)
		x, stop := r.awaits("x", 1)
		y, _ := r.awaits("y", 0)
		wantRung(t, "nothing came", x, 0)
		if n := r.f.waiting(); n != 2 {
			t.Errorf("%d pulls wait at 2 queues", n)
		}
		begin := time.Now()
		r.f.put(q1, "x")
		wantRung(t, "x came", x, 1)
		wantRung(t, "x came, not y", y, 0)
		if d := time.Since(begin); d > 0 {
			t.Errorf("it was told after %v", d)
		}
		stop()
		<-time.After(time.Minute)
		r.f.put(q0, "y")
		wantRung(t, "y came after a minute", y, 1)
	})
}

// TestLiteWatchLosesNothing: what comes between the read that found the end and
// the await is told; so is what was there before.
func TestLiteWatchLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0))
		r.reads("x", 0, 0)
		r.f.put(q0, "x")
		synctest.Wait()
		x, _ := r.awaits("x", 0)
		wantRung(t, "it came before the await", x, 1)
		r.reads("x", 0, 1)
		r.reads("x", 1, 0)
		early, _ := r.awaits("x", 0)
		wantRung(t, "there is one above", early, 1)
		never, _ := r.awaits("never-read", 0)
		wantRung(t, "it was never read", never, 1)
	})
}

// TestLiteWatchTooEarly: a broker puts a message into the parent's queue before
// it is in its lite topic. Who was told of it and looks too early looks again; but
// not for ever, for it may have expired.
func TestLiteWatchTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0))
		r.reads("x", 0, 0)
		x, _ := r.awaits("x", 0)
		show := r.f.putSlowly(q0, "x")
		wantRung(t, "it came", x, 1)
		r.reads("x", 0, 0)
		x, _ = r.awaits("x", 0)
		wantRung(t, "it is not there yet", x, 1)
		show()
		r.reads("x", 0, 1)
		r.reads("x", 1, 0)
		r.f.putSlowly(q0, "x")
		synctest.Wait()
		looks, begin := 0, time.Now()
		for again := true; again; looks++ {
			r.reads("x", 1, 0)
			var stop func()
			x, stop = r.awaits("x", 1)
			again = *x > 0
			stop()
		}
		if took := time.Since(begin); took > 10*time.Second || looks > 2000 {
			t.Errorf("it was looked for %d times in %v", looks, took)
		}
	})
}

// TestLiteWatchLost: a broker that goes on to refuse the offset that it has told
// is not asked without a pause, and does not make everybody look without one.
func TestLiteWatchLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0))
		r.reads("x", 0, 0)
		r.f.change(func() { r.f.lost = true })
		<-time.After(time.Minute)
		w := r.parents["p"]
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.all == 0 || w.all > 100 {
			t.Errorf("in a minute everybody was made to look %d times", w.all)
		}
	})
}

// TestLiteWatchAfterFailure: when the brokers are back everybody looks.
func TestLiteWatchAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0))
		r.reads("x", 0, 0)
		x, _ := r.awaits("x", 0)
		r.f.change(func() { r.f.away = remoting.ErrUnreachable })
		<-time.After(time.Minute)
		wantRung(t, "the broker is away", x, 0)
		r.f.change(func() { r.f.away = nil })
		<-time.After(2 * time.Second)
		wantRung(t, "the broker is back", x, 1)
	})
}

// TestLiteWatchNewQueue: a queue that the parent gets later is watched too, and
// everybody looks once.
func TestLiteWatchNewQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0))
		r.reads("x", 0, 0)
		x, _ := r.awaits("x", 0)
		r.f.change(func() { r.f.all = append(r.f.all, q1) })
		<-time.After(2 * watchLook)
		wantRung(t, "there is a new queue", x, 1)
		r.reads("x", 0, 0)
		x, _ = r.awaits("x", 0)
		wantRung(t, "nothing came", x, 0)
		r.f.put(q1, "x")
		wantRung(t, "it came to the new queue", x, 1)
	})
}

// TestLiteWarnings: a lite topic at two brokers, and messages in none, are told,
// once.
func TestLiteWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := queue{"p", "b", 0}
		r := newLiteRig(t, newLiteFake(q0, other))
		r.f.put(q0, "x")
		r.reads("x", 0, 1)
		for range 3 {
			r.f.put(other, "x")
			r.f.put(q0, "stray:x")
			synctest.Wait()
		}
		r.reads("x", 1, 0)
		for _, text := range []string{"two brokers", "enableMultiDispatch"} {
			if n := strings.Count(r.said.String(), text); n != 1 {
				t.Errorf("%q is told %d times:\n%s", text, n, r.said.String())
			}
		}
	})
}

// TestLiteReadBounds: what is above the end is out of range where there is
// something, and nothing where the broker knows nothing.
func TestLiteReadBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0))
		r.reads("x", 20, 0)
		r.f.put(q0, "x")
		_, err := r.read(t.Context(), storage.PollRequest{Topic: "p", Partition: "x", Start: 20})
		var rng *storage.RangeError
		if !errors.As(err, &rng) || rng.Max != 1 {
			t.Errorf("a read above the end: %v", err)
		}
		r.f.change(func() { r.f.away = remoting.ErrUnreachable })
		if _, err := r.read(t.Context(), storage.PollRequest{Topic: "p", Partition: "y"}); !errors.Is(err, remoting.ErrUnreachable) {
			t.Errorf("a read while the broker is away: %v", err)
		}
	})
}

// TestLiteRest: what nobody reads is forgotten, and its parent watched no more;
// what is awaited is not.
func TestLiteRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiteRig(t, newLiteFake(q0))
		r.reads("x", 0, 0)
		r.reads("y", 0, 0)
		x, stop := r.awaits("x", 0)
		<-time.After(time.Hour)
		r.rest(time.Now())
		if w := r.parents["p"]; w == nil || len(w.lites) != 1 {
			t.Fatalf("the watch is %+v", w)
		}
		r.f.put(q0, "x")
		wantRung(t, "it came after an hour", x, 1)
		stop()
		<-time.After(time.Hour)
		r.rest(time.Now())
		synctest.Wait()
		if len(r.parents) > 0 || r.f.waiting() > 0 {
			t.Errorf("%d parents are watched with %d pulls", len(r.parents), r.f.waiting())
		}
		r.reads("x", 0, 1)
	})
}

// TestLiteOffset: the offset of a message in a lite topic is beside its name.
func TestLiteOffset(t *testing.T) {
	message := func(queues, offsets string) *remoting.Message {
		text := remoting.AppendProperty("", propDispatch, queues)
		return &remoting.Message{Properties: remoting.AppendProperty(text, propDispatched, offsets), QueueOffset: 99}
	}
	x := remoting.LiteTopic("p", "x")
	for _, c := range []struct {
		queues, offsets string
		want            int64
		ok              bool
	}{
		{x, "7", 7, true},
		{"%LMQ%other," + x, "1,8", 8, true},
		{"%LMQ%other", "1", 0, false},
		{x, "", 0, false},
		{"", "7", 0, false},
		{"%LMQ%other," + x, "1", 0, false},
		{x, "seven", 0, false},
	} {
		got, err := liteOffset(message(c.queues, c.offsets), x)
		if got != c.want || (err == nil) != c.ok || err != nil && !errors.Is(err, remoting.ErrMalformed) {
			t.Errorf("%q %q: %d, %v", c.queues, c.offsets, got, err)
		}
	}
}
