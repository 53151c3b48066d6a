package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
)

// A dead letter is written in steps, each durable before the next, so that a
// crash between any two of them neither loses it nor delivers its record again:
//
//	intent ─► letter in the topic ─► entry in the ledger, record finished, intent gone
//
// The first and the last are commits of the part. After a crash the intent is
// found when the part is opened, and the steps go on from there: the topic may
// get the letter twice, the ledger has one entry.

// intentSpace holds the dead letters that are being written.
const intentSpace = "deadletter-intents"

// intentPrefix is what the keys of a topic's intents begin with.
func intentPrefix(topic string) string { return fmt.Sprintf("%d:%s", len(topic), topic) }

// subscriberIntents is what the keys of a subscriber's intents begin with.
func subscriberIntents(topic string, sub offsetstore.Subscriber) string {
	return fmt.Sprintf("%s%d:%s", intentPrefix(topic), len(sub.String()), sub)
}

// partIntents is what the keys of the intents in one partition begin with.
func partIntents(key offsetstore.Key) string {
	return fmt.Sprintf("%s%d:%s", subscriberIntents(key.Topic, key.Subscriber), len(key.Partition), key.Partition)
}

func intentKey(key offsetstore.Key, let *Letter) string { return partIntents(key) + let.ID }

// burials are the dead letters of a part that are on their way. They are the
// loop's.
type burials struct {
	intents map[int64]Letter // durable, by offset; nil: none
	asked   []grave          // to get their intents with the next commit
	asking  []grave          // with the commit under way
	done    []obituary       // written: to get their entries with the next commit
	doing   []obituary       // with the commit under way
	stale   []string         // keys of intents that mean nothing any more
	going   []string         // to be gone with the commit under way
	graves  int              // asked, and being written
}

// grave is a dead letter to be written.
type grave struct {
	p     *part
	dead  delivery.Dead
	let   Letter
	write func(context.Context, *Letter) error
}

// obituary is a dead letter that is written.
type obituary struct {
	let      Letter
	intended bool
}

// idle tells whether nothing of it is to be committed.
func (b *burials) idle() bool { return len(b.asked)+len(b.done)+len(b.stale) == 0 }

const (
	// intentsBytes is how much intents take in one commit, the others wait for the
	// next: all that is in flight may die at once, and a store takes less of it in
	// one transaction.
	intentsBytes = 16 << 10
	// maxUnnoted is how many letters of a part are written at most while their
	// entries in the ledger are not: they go in one commit.
	maxUnnoted = 16
	// maxStale is how many intents are removed in one commit.
	maxStale = 64
)

// into adds to a commit of the part.
func (b *burials) into(key offsetstore.Key, txn *offsetstore.Txn) {
	n := 0
	for bytes := 0; n < len(b.asked) && bytes < intentsBytes; n++ {
		let := &b.asked[n].let
		r := offsetstore.Record{Space: intentSpace, Key: intentKey(key, let), Value: let.encode()}
		txn.Sets = append(txn.Sets, r)
		bytes += pairBytes(&r)
	}
	for i := range b.done {
		let := &b.done[i].let
		txn.Sets = append(txn.Sets, offsetstore.Record{Space: ledgerSpace, Key: let.key(), Value: let.encode()})
		if b.done[i].intended {
			txn.Unsets = append(txn.Unsets, offsetstore.Record{Space: intentSpace, Key: intentKey(key, let)})
		}
	}
	stale := min(len(b.stale), maxStale)
	for _, k := range b.stale[:stale] {
		txn.Unsets = append(txn.Unsets, offsetstore.Record{Space: intentSpace, Key: k})
	}
	b.asking, b.asked = b.asked[:n:n], b.asked[n:]
	b.doing, b.done = b.done, nil
	b.going, b.stale = b.stale[:stale:stale], b.stale[stale:]
}

// out takes in how the commit went and returns what can be written now.
func (b *burials) out(ok bool) (open []grave) {
	if ok {
		open = b.asking
	} else {
		b.asked = append(b.asking, b.asked...)
		b.done = append(b.doing, b.done...)
		b.stale = append(b.going, b.stale...)
	}
	b.asking, b.doing, b.going = nil, nil, nil
	return open
}

// drop ends what is asked for and intended: the records are not of this epoch any
// more. What is written gets its entry all the same.
func (b *burials) drop(key offsetstore.Key) {
	for _, let := range b.intents {
		b.stale = append(b.stale, intentKey(key, &let))
	}
	b.intents = nil
	b.graves -= len(b.asked)
	b.asked = nil
}

// bury begins what is to be done for the dead letters that the machine yields.
func (l *loop) bury(p *part, now time.Time) {
	if l.d.blocked() {
		return
	}
	if l.pop != nil {
		l.pop.bury(p, now)
		return
	}
	for _, dead := range p.m.Dead() {
		if let, ok := p.burials.intents[dead.Offset]; ok { // before a crash, or a write that failed
			l.dig(grave{p, dead, let, l.d.writeLetter})
			continue
		}
		let := Letter{
			ID:    letterID(p.key, p.log.TopicID, dead.Offset, p.m.Epoch()),
			Topic: p.key.Topic, TopicID: p.log.TopicID, Subscriber: p.key.Subscriber.String(),
			Partition: p.key.Partition, Offset: dead.Offset, Epoch: p.m.Epoch(),
			Reason: dead.Reason, Detail: dead.Detail, Attempts: dead.Attempts, Time: now.UnixMilli(),
		}
		p.burials.graves++
		p.burials.asked = append(p.burials.asked, grave{p, dead, let, l.d.writeLetter})
	}
}

// interred goes on after a commit of a part: letters whose intents are durable
// are written.
func (l *loop) interred(p *part, ok bool) {
	for _, g := range p.burials.out(ok) {
		p.burials.graves--
		switch {
		case l.parts[p.key.Subscriber] != p: // found by who opens it next
		case g.let.Epoch != p.m.Epoch():
			p.burials.stale = append(p.burials.stale, intentKey(p.key, &g.let))
		default:
			if p.burials.intents == nil {
				p.burials.intents = map[int64]Letter{}
			}
			p.burials.intents[g.dead.Offset] = g.let
			l.dig(g)
		}
	}
}

// findIntents takes up the intents that a crash has left in a part that is opened.
func (l *loop) findIntents(p *part) error {
	var bad error
	err := l.d.store.ScanRecords(intentSpace, partIntents(p.key), "", func(key string, raw []byte) bool {
		var let Letter
		if bad = json.Unmarshal(raw, &let); bad != nil {
			bad = fmt.Errorf("dead letter %q that was being written: %w (%w)", key, offsetstore.ErrCorrupt, bad)
			return false
		}
		if let.Epoch != p.m.Epoch() || p.m.Finished(let.Offset) {
			p.burials.stale = append(p.burials.stale, key)
			return true
		}
		if p.burials.intents == nil {
			p.burials.intents = map[int64]Letter{}
		}
		p.burials.intents[let.Offset] = let
		return true
	})
	if err == nil {
		err = bad
	}
	for _, off := range slices.Sorted(maps.Keys(p.burials.intents)) {
		l.doom(p, off)
	}
	return err
}

// doom makes an offset that has an intent a dead letter, if the machine knows it
// already. Else it does when it is offered.
func (l *loop) doom(p *part, off int64) (known bool) {
	if len(p.burials.intents) == 0 { // as nearly always, for every record
		return false
	}
	let, ok := p.burials.intents[off]
	if ok && off < p.m.NextNew() {
		p.m.Kill(off, let.Reason, let.Detail)
		l.touch(p)
	}
	return ok
}

const (
	// maxDigging is how many dead letters one loop has written at a time, so
	// that the many of one partition do not hold up the few of another.
	maxDigging = 4
	// digPatience is how long a part whose last stream has left is kept for the
	// dead letters that are being written.
	digPatience = 5 * time.Second
)

// dig has a dead letter written, at once or when those before it are.
func (l *loop) dig(g grave) {
	g.p.burials.graves++
	l.graves = append(l.graves, g)
	l.digOn()
}

func (l *loop) digOn() {
	for l.digging < maxDigging && len(l.graves) > 0 {
		g := l.graves[0]
		if l.parts[g.p.key.Subscriber] == g.p && len(g.p.burials.done)+len(g.p.burials.doing) >= maxUnnoted {
			return // until they are committed
		}
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

// buried finishes a dead letter that is written, or has it tried again.
func (l *loop) buried(p *part, dead delivery.Dead, let Letter, err error) {
	p.burials.graves--
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
	_, intended := p.burials.intents[dead.Offset]
	delete(p.burials.intents, dead.Offset)
	p.burials.done = append(p.burials.done, obituary{let, intended})
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
