package dispatch

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// A log that hands records out (storage.Popper) is served by a loop for each
// subscriber, its feed, instead of one for each partition. The subscriber has a
// technical group at the broker. What is popped gets an offset out of a
// sequence of the feed's own, so that the delivery machine is the same; nothing
// durable hangs on that number. What is durable is kept by the message's id:
//
//	popped ──► buffered ──► in flight ──ack──► committed ──► told DURABLE
//	  │            │            │                  │
//	  │            └─ renewed ──┘                  └──► acked at the broker ──► id forgotten
//	  └── known as finished ─────────────────────────────────┘
//
// The entries of ids are written in the transaction of the commit that the
// client's answer waits for, so that a crash at any point leaves either a
// record that comes again and is not finished, or one that is known to be.

const (
	// popPartition is the partition under which a feed keeps its value.
	popPartition = "pop"
	// popMax is how many records one pop asks for at most.
	popMax = 256
	// popFirst is how many the first one does, while nothing is known of how
	// large they are.
	popFirst = 16
	// popWait is how long a pop waits at the broker.
	popWait = 20 * time.Second
	// popCall bounds a call for an ack, a renewal or a release.
	popCall = 10 * time.Second
	// popBatch is how many receipts one such call is for.
	popBatch = 256
	// popUnacked is how many finished messages may wait for their broker ack
	// until nothing more is popped.
	popUnacked = 8 * popBatch
	// popGrace is how long the end of a feed waits for acks at the broker.
	popGrace = 3 * time.Second
	// popKeep is how long an id is remembered that the broker neither
	// confirms nor hands out again, though there are streams to hand it to.
	popKeep = 3 * 24 * time.Hour
	// popLongestRetry bounds the waits between tries of a broker ack, of a pop.
	popLongestRetry = 10 * time.Second
)

// PopMetrics counts what concerns a log that hands records out.
type PopMetrics struct {
	Popped         atomic.Int64 // records received from the broker
	Joined         atomic.Int64 // of these, under way here already
	Finished       atomic.Int64 // of these, finished here already: acked, not delivered
	Renewed        atomic.Int64 // receipts renewed
	RenewFailures  atomic.Int64 // calls that failed
	Lapsed         atomic.Int64 // receipts that ran out before their record was sent
	Released       atomic.Int64
	Acked          atomic.Int64 // records acked at the broker
	AckFailures    atomic.Int64 // tries that failed, to be repeated
	AckExpired     atomic.Int64 // given up: the receipt ran out
	AckUnknown     atomic.Int64 // given up: the broker did not know the receipt
	PendingAcks    atomic.Int64 // records finished and not acked at the broker yet
	Held           atomic.Int64 // records popped and not finished
	ForgetFailures atomic.Int64 // entries that could not be taken off the store, to be repeated
}

// popLog is a log that hands records out.
type popLog struct {
	storage.Popper
	acker storage.Acker
	admin storage.GroupAdmin // nil: groups cannot be placed or moved
}

// popLogOf returns what backend hands out with; nil: it is read by position.
func popLogOf(b storage.Backend) (*popLog, error) {
	p, ok := storage.As[storage.Popper](b)
	if !ok {
		return nil, nil
	}
	a, ok := storage.As[storage.Acker](b)
	if !ok {
		return nil, fmt.Errorf("backend %s hands records out but takes no acks", b.Name())
	}
	admin, _ := storage.As[storage.GroupAdmin](b)
	return &popLog{Popper: p, acker: a, admin: admin}, nil
}

// readByPosition are the partitions of a topic that have loops of their own.
func (d *Dispatcher) readByPosition(info storage.Topic) []string {
	if d.pop != nil || info.Lite {
		return nil
	}
	return info.Partitions
}

// ErrKindFixed: a subscriber of a log that hands records out cannot change from
// ordered to not ordered or back, because its group at the broker cannot.
var ErrKindFixed = errors.New("ordered is fixed for this subscriber")

// GroupName is the technical group of a subscriber at a broker that hands
// records out: EM- and a hash of topic, kind and name, 36 ASCII characters.
func GroupName(topic string, sub offsetstore.Subscriber) string {
	h := sha256.New()
	for _, s := range []string{topic, sub.Kind.String(), sub.Name} {
		_ = binary.Write(h, binary.BigEndian, uint32(len(s))) // a hash takes everything
		h.Write([]byte(s))
	}
	return "EM-" + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))[:33]
}
