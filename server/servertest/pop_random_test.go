package servertest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// popWalk is one random history on a log that hands records out.
type popWalk struct {
	*pops
	rnd       *rand.Rand
	s         *Stream
	published int
	finished  map[string]bool // told DURABLE for an ack
	held      []Got
}

func (w *popWalk) open() {
	o := open("c", Sub("t", broadcast))
	o.MaxInFlight = ptr(int32(1 + w.rnd.IntN(20)))
	o.AckTimeout = durationpb.New(time.Duration(5+w.rnd.IntN(60)) * time.Second)
	w.s, w.held = Open(w.t, w.in.Mesh(), o), nil
}

// collect takes what has come. What is finished must not come again, unless its
// answer crossed with it: so nothing may be sent after a DURABLE was read.
func (w *popWalk) collect() {
	w.t.Helper()
	synctest.Wait()
	n := len(w.s.Pending())
	for _, g := range w.s.Take(n) {
		if w.finished[g.Data()] {
			w.t.Fatalf("%s came again after DURABLE", Show([]Got{g}))
		}
		w.held = append(w.held, g)
	}
}

func (w *popWalk) step() {
	switch k := w.rnd.IntN(100); {
	case k < 25:
		for range 1 + w.rnd.IntN(10) {
			Publish(w.t, w.in.Mesh(), "t", fmt.Sprint("m", w.published))
			w.published++
		}
	case k < 60 && len(w.held) > 0:
		i := w.rnd.IntN(len(w.held))
		g := w.held[i]
		w.held = append(w.held[:i], w.held[i+1:]...)
		w.s.Ack(g)
		if w.s.Outcome(g) == durable {
			w.collect() // what was under way before
			w.finished[g.Data()] = true
			w.dropHeld(g.Data())
		}
	case k < 70 && len(w.held) > 0:
		g := w.held[0]
		w.held = w.held[1:]
		w.s.Nack(g)
		w.s.Outcome(g)
	case k < 80:
		<-time.After(time.Duration(w.rnd.IntN(40)) * time.Second)
	case k < 84:
		w.s.Break()
		<-time.After(time.Duration(w.rnd.IntN(3)) * time.Second)
		w.open()
	case k < 88:
		w.crash()
		w.start()
		w.open()
	case k < 91:
		w.in.Stop()
		w.start()
		w.open()
	case k < 94:
		w.br.RefuseAcks(w.rnd.IntN(5))
	case k < 97:
		w.br.FailRenewals(storage.ErrUnavailable)
		<-time.After(time.Duration(w.rnd.IntN(50)) * time.Second)
		w.br.FailRenewals(nil)
	default:
		w.br.Stop()
		<-time.After(time.Duration(w.rnd.IntN(50)) * time.Second)
		w.br.Start()
	}
	w.collect()
}

func (w *popWalk) dropHeld(data string) {
	kept := w.held[:0]
	for _, g := range w.held {
		if g.Data() != data {
			kept = append(kept, g)
		}
	}
	w.held = kept
}

// end acks everything that still comes, and checks that all is accounted for.
func (w *popWalk) end() {
	w.br.RefuseAcks(0)
	w.open()
	for quiet := 0; quiet < 3; {
		if !w.s.Await(time.Minute, 1) {
			quiet++
			continue
		}
		w.collect()
		for _, g := range w.held {
			w.s.Ack(g)
			if w.s.Outcome(g) == durable {
				w.finished[g.Data()] = true
			}
		}
		w.held = nil
	}
	dead := map[string]bool{}
	for _, let := range allLetters(w.t, w.in, "t") {
		dead[string(let.GetFrame().GetData())] = true
	}
	for i := range w.published {
		if data := fmt.Sprint("m", i); !w.finished[data] && !dead[data] {
			w.t.Errorf("%s is neither finished nor a dead letter", data)
		}
	}
	w.untilAcked("c", w.published)
	// An entry stays for a while when the process died between the broker's
	// answer and the forgetting.
	acks := w.counts("c").Acks
	err := w.store.ScanRecords("pop", "", "", func(key string, _ []byte) bool {
		if id := key[strings.LastIndex(key, "01m"):]; acks[id] == 0 {
			w.t.Errorf("an entry is left for %s, which is not acked at the broker", id)
		}
		return true
	})
	if err != nil {
		w.t.Error(err)
	}
	if n := w.br.Outstanding("t", group("c")); n != 0 {
		w.t.Errorf("%d records are outstanding at the broker", n)
	}
}

// TestPop_Random: whatever happens, what a client was told DURABLE never comes
// again, everything is finished or a dead letter, and the broker is told once of
// each message. POP_SEEDS says how many histories.
func TestPop_Random(t *testing.T) {
	seeds := 15
	if n, err := strconv.Atoi(os.Getenv("POP_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			popBubble(t, func(t *testing.T) {
				w := &popWalk{pops: popping(t, 3), rnd: rand.New(rand.NewPCG(uint64(seed), 7)), finished: map[string]bool{}}
				w.open()
				for range 120 {
					w.step()
				}
				w.end()
			})
		})
	}
}

// allLetters lists the dead letters of all pages.
func allLetters(t *testing.T, in *Instance, topic string) (list []*pb.DeadLetter) {
	t.Helper()
	for token := ""; ; {
		res, err := in.Admin().ListDeadLetters(t.Context(), &pb.ListDeadLettersRequest{Topic: topic, PageSize: 1000, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, res.GetDeadLetters()...)
		if token = res.GetNextPageToken(); token == "" {
			return list
		}
	}
}
