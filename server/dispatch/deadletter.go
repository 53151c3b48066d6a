package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
	"github.com/ackmesh/ackmesh/storage"
)

// ledgerSpace holds an entry for each dead letter. The topic of dead letters
// may repeat an id after a crash, the ledger never does.
const ledgerSpace = "deadletters"

// Letter is a dead letter as the ledger has it.
type Letter struct {
	ID         string `json:"id"`
	Topic      string `json:"topic"`
	Subscriber string `json:"subscriber"`
	Partition  string `json:"partition"`
	Offset     int64  `json:"offset"`
	Epoch      uint64 `json:"epoch"`
	Reason     string `json:"reason"`
	Detail     string `json:"detail,omitempty"`
	Attempts   int32  `json:"attempts"`
	Time       int64  `json:"time"` // ms since 1970
	// Where the letter is in the topic of dead letters.
	LetterTopic     string `json:"letterTopic,omitempty"`
	LetterPartition string `json:"letterPartition,omitempty"`
	LetterOffset    int64  `json:"letterOffset,omitempty"`
}

// DeadLetterTopic is the name of a topic's dead letters. Of very long names it
// keeps the beginning and a hash.
func DeadLetterTopic(topic string) string {
	if len(topic)+len(DeadLetterSuffix) <= storage.MaxNameLen {
		return topic + DeadLetterSuffix
	}
	sum := sha256.Sum256([]byte(topic))
	cut := storage.MaxNameLen - len(DeadLetterSuffix) - 17
	for !utf8.RuneStart(topic[cut]) {
		cut--
	}
	return topic[:cut] + "~" + hex.EncodeToString(sum[:8]) + DeadLetterSuffix
}

// ensureDeadLetters makes the topic of a topic's dead letters, so that there is
// room for them when they come.
func (d *Dispatcher) ensureDeadLetters(ctx context.Context, topic string) error {
	if strings.HasSuffix(topic, DeadLetterSuffix) {
		return nil
	}
	if _, err := d.backend.EnsureTopic(ctx, DeadLetterTopic(topic)); err != nil {
		return fmt.Errorf("the topic of its dead letters is needed: %w", err)
	}
	return nil
}

// letterID is the hash of what makes a dead letter one.
func letterID(key offsetstore.Key, off int64, epoch uint64) string {
	h := sha256.New()
	for _, s := range []string{key.Topic, key.Subscriber.String(), key.Partition} {
		_ = binary.Write(h, binary.BigEndian, uint32(len(s))) // a hash takes everything
		h.Write([]byte(s))
	}
	_ = binary.Write(h, binary.BigEndian, off)
	_ = binary.Write(h, binary.BigEndian, epoch)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// bury writes the dead letters that the machine yields, each by a job of its
// own, and finishes them once they are durable.
func (l *loop) bury(p *part, now time.Time) {
	if l.d.blocked() {
		return
	}
	if l.pop != nil {
		l.pop.bury(p, now)
		return
	}
	for _, dead := range p.m.Dead() {
		let := Letter{
			ID: letterID(p.key, dead.Offset, p.m.Epoch()), Topic: p.key.Topic, Subscriber: p.key.Subscriber.String(),
			Partition: p.key.Partition, Offset: dead.Offset, Epoch: p.m.Epoch(),
			Reason: dead.Reason, Detail: dead.Detail, Attempts: dead.Attempts, Time: now.UnixMilli(),
		}
		l.dig(grave{p, dead, let, l.d.writeLetter})
	}
}

const (
	// maxDigging is how many dead letters one loop has written at a time, so
	// that the many of one partition do not hold up the few of another.
	maxDigging = 4
	// digPatience is how long a part whose last stream has left is kept for the
	// dead letters that are being written.
	digPatience = 5 * time.Second
)

// grave is a dead letter to be written.
type grave struct {
	p     *part
	dead  delivery.Dead
	let   Letter
	write func(context.Context, *Letter) error
}

// dig has a dead letter written, at once or when those before it are.
func (l *loop) dig(g grave) {
	g.p.graves++
	l.graves = append(l.graves, g)
	l.digOn()
}

func (l *loop) digOn() {
	for l.digging < maxDigging && len(l.graves) > 0 {
		g := l.graves[0]
		l.graves[0] = grave{}
		l.graves = l.graves[1:]
		l.digging++
		l.d.diggers.do(func(ctx context.Context) {
			err := g.write(ctx, &g.let)
			l.post(event{kind: evCall, call: func() {
				l.digging--
				l.digOn()
				l.buried(g.p, g.dead, g.let, err)
			}})
		})
	}
}

// buried finishes a dead letter that is durable, or has it tried again.
func (l *loop) buried(p *part, dead delivery.Dead, let Letter, err error) {
	p.graves--
	l.touch(p)
	if l.parts[p.key.Subscriber] != p || p.m.Epoch() != let.Epoch {
		return
	}
	if err != nil {
		l.d.Metrics.DeadFailures.Add(1)
		l.d.warn("dead letter could not be written, trying again", "topic", let.Topic, "partition", let.Partition, "offset", let.Offset, "subscriber", let.Subscriber, "error", err)
		retry := time.Now().Add(time.Second)
		l.undead = append(l.undead, undead{p, dead.Offset, retry})
		l.note(retry)
		return
	}
	l.d.Metrics.DeadLettered.Add(1)
	p.counts.DeadLettered.Add(1)
	raw, err := json.Marshal(let)
	if err != nil {
		l.d.warn("dead letter has no ledger entry", "id", let.ID, "error", err)
	} else {
		p.letters = append(p.letters, offsetstore.Record{Space: ledgerSpace, Key: let.key(), Value: raw})
	}
	p.m.Finish(dead.Offset)
	l.touch(p)
	l.enlist(p)
}

// undead is a dead letter to be tried again.
type undead struct {
	p   *part
	off int64
	at  time.Time
}

// revive gives dead letters that could not be written back to their machines.
func (l *loop) revive(now time.Time) {
	kept := l.undead[:0]
	for _, u := range l.undead {
		switch {
		case l.parts[u.p.key.Subscriber] != u.p:
		case now.Before(u.at):
			kept = append(kept, u)
			l.note(u.at)
		default:
			u.p.m.Undead(u.off)
			l.touch(u.p)
		}
	}
	l.undead = kept
}

// ledgerPrefix is what the keys of a topic's letters begin with.
func ledgerPrefix(topic string) string { return fmt.Sprintf("%d:%s", len(topic), topic) }

// key orders the letters of a topic by the time of their death.
func (let *Letter) key() string {
	return fmt.Sprintf("%s%016x%s", ledgerPrefix(let.Topic), let.Time, let.ID)
}

// writeLetter notes the intent, then publishes the letter.
func (d *Dispatcher) writeLetter(ctx context.Context, let *Letter) error {
	if strings.HasSuffix(let.Topic, DeadLetterSuffix) {
		return nil // dead letters have no dead letters: it stays where it is
	}
	rec, err := d.readOne(ctx, let.Topic, let.Partition, let.Offset)
	if err != nil {
		return err
	}
	if rec == nil {
		let.Detail = strings.TrimSpace(let.Detail + " (the log holds the record no more)")
		return nil
	}
	return d.publishLetter(ctx, rec, let)
}

// publishLetter publishes a record as a dead letter.
func (d *Dispatcher) publishLetter(ctx context.Context, rec *storage.Record, let *Letter) error {
	stored, err := stampLetter(rec, let)
	if err != nil {
		return err
	}
	let.LetterTopic = DeadLetterTopic(let.Topic)
	if _, err := d.backend.EnsureTopic(ctx, let.LetterTopic); err != nil {
		return err
	}
	res, err := storage.AppendWait(ctx, d.backend, let.LetterTopic, []storage.Event{{Frame: stored, DedupKey: "emdlqid:" + let.ID}})
	if err == nil {
		err = res[0].Err
	}
	if errors.Is(err, storage.ErrTooLarge) { // it never will: what is known is that it is where it was
		let.LetterTopic = ""
		let.Detail = strings.TrimSpace(let.Detail + " (too large for the topic of dead letters)")
		return nil
	}
	if err != nil {
		return err
	}
	let.LetterPartition, let.LetterOffset = res[0].Partition, res[0].Offset
	return nil
}

// readOne reads the record at an offset; nil: there is none.
func (d *Dispatcher) readOne(ctx context.Context, topic, partition string, off int64) (*storage.Record, error) {
	var b storage.Batch
	err := d.backend.Poll(ctx, storage.PollRequest{Topic: topic, Partition: partition, Start: off, MaxRecords: 1}, &b)
	var rng *storage.RangeError
	switch {
	case errors.As(err, &rng):
		return nil, nil
	case err != nil:
		return nil, err
	case len(b.Records) == 0 || b.Records[0].Offset != off:
		return nil, nil
	}
	return &b.Records[0], nil
}

// stampLetter adds what a dead letter tells of itself.
func stampLetter(rec *storage.Record, let *Letter) ([]byte, error) {
	f, err := frame.Decode(rec.Frame)
	if err != nil {
		return nil, err
	}
	for i := len(f.Attributes) - 1; i >= 0; i-- {
		if frame.Reserved(f.Attributes[i].Name) {
			f.Delete(f.Attributes[i].Name)
		}
	}
	reason := let.Reason
	if let.Detail != "" {
		reason += ": " + let.Detail
	}
	f.Set(frame.AttrDLQID, let.ID)
	f.Set(frame.AttrDLQReason, clip(reason, 1024))
	f.Set(frame.AttrDLQTopic, let.Topic)
	f.Set(frame.AttrDLQPartition, let.Partition)
	f.Set(frame.AttrDLQOffset, strconv.FormatInt(let.Offset, 10))
	f.Set(frame.AttrDLQSubscriber, let.Subscriber)
	f.Set(frame.AttrDLQAttempts, strconv.Itoa(int(let.Attempts)))
	out, err := frame.Append(nil, &f)
	if err != nil { // no room for our attributes: those of the event give way
		f.Attributes = f.Attributes[max(0, len(f.Attributes)-frame.MaxAttributes):]
		out, err = frame.Append(nil, &f)
	}
	return out, err
}

// clip shortens s to at most n bytes of whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
