package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// rebuildGroup is how many entries one commit of a rebuild adds.
const rebuildGroup = 500

// rebuild is one rebuild of the ledger of a topic.
type rebuild struct {
	d      *Dispatcher
	topic  string
	at     storage.Topic          // the topic of dead letters
	ends   map[string]int64       // up to where it is read, by partition
	gone   map[string]*offset.Set // letters done with, by partition
	skip   map[string]struct{}    // ids that are in the ledger, on their way into it, or done with
	found  map[string]struct{}    // ids
	added  int64
	broken int64
	txn    *offsetstore.Txn
}

// RebuildLetters reads the topic of a topic's dead letters and adds to the ledger
// what it lacks: found letters in all, of which added were not there. What was
// replayed or purged stays out, as far as this instance knows of it; what is
// being written meanwhile gets its entry by itself. The log must be readable by
// position.
func (d *Dispatcher) RebuildLetters(ctx context.Context, topic string) (found, added int64, err error) {
	r, err := d.newRebuild(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	err = r.run(ctx)
	return int64(len(r.found)), r.added, err
}

// newRebuild begins a rebuild: it is about the letters that are there now.
func (d *Dispatcher) newRebuild(ctx context.Context, topic string) (*rebuild, error) {
	if strings.HasSuffix(topic, DeadLetterSuffix) {
		return nil, fmt.Errorf("topic %q holds dead letters itself: name the topic that they are of: %w", topic, storage.ErrInvalid)
	}
	at, err := d.backend.Topic(ctx, DeadLetterTopic(topic))
	if err != nil {
		return nil, err
	}
	r := &rebuild{
		d: d, topic: topic, at: at, ends: map[string]int64{}, gone: map[string]*offset.Set{},
		skip: map[string]struct{}{}, found: map[string]struct{}{}, txn: &offsetstore.Txn{},
	}
	return r, r.prepare(ctx)
}

// run reads the letters and adds what the ledger lacks.
func (r *rebuild) run(ctx context.Context) error {
	for _, visit := range []func(context.Context, *storage.Record, *Letter) error{r.visitGone, r.visit} {
		for _, partition := range r.at.Partitions {
			if err := r.each(ctx, partition, visit); err != nil {
				return fmt.Errorf("topic %q partition %q: %w", r.at.Name, partition, err)
			}
		}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.broken > 0 {
		r.d.warn("records in a topic of dead letters are none", "topic", r.at.Name, "records", r.broken)
	}
	return nil
}

// prepare looks at the ends first, then at what is on its way into the ledger,
// then at the ledger: so a letter that is being written meanwhile is beyond the
// ends, on its way, or there. Nothing is taken off the ledger meanwhile: it would
// neither be gone nor be there.
func (r *rebuild) prepare(ctx context.Context) (err error) {
	if err := r.d.lockLedger(ctx); err != nil {
		return err
	}
	defer r.d.unlockLedger()
	for _, partition := range r.at.Partitions {
		if _, r.ends[partition], err = r.d.bounds(ctx, r.at.Name, partition); err != nil {
			return err
		}
		if r.gone[partition], err = r.d.readGone(r.at, partition); err != nil {
			return err
		}
	}
	var bad error
	note := func(key string, value []byte) bool {
		var let struct {
			ID string `json:"id"`
		}
		if bad = json.Unmarshal(value, &let); bad != nil {
			bad = fmt.Errorf("dead letter %q in the ledger: %w (%w)", key, offsetstore.ErrCorrupt, bad)
			return false
		}
		r.skip[let.ID] = struct{}{}
		return true
	}
	err = r.d.store.ScanRecords(intentSpace, intentPrefix(r.topic), "", note)
	if err == nil && bad == nil {
		err = r.d.store.ScanRecords(ledgerSpace, ledgerPrefix(r.topic), "", note)
	}
	return errors.Join(err, bad)
}

// each calls visit for the letters of a partition that were there when prepare
// looked at its end.
func (r *rebuild) each(ctx context.Context, partition string, visit func(context.Context, *storage.Record, *Letter) error) error {
	var b storage.Batch
	for off := int64(0); off < r.ends[partition]; {
		b.Reset()
		err := r.d.backend.Poll(ctx, storage.PollRequest{Topic: r.at.Name, TopicID: r.at.ID, Partition: partition, Start: off, MaxBytes: pollBytes}, &b)
		var rng *storage.RangeError
		if errors.As(err, &rng) && rng.Min > off {
			off = rng.Min
			continue
		}
		if err != nil {
			return err
		}
		for i := range b.Records {
			rec := &b.Records[i]
			if rec.Offset >= r.ends[partition] {
				return nil // written since: nobody has looked whether it is on its way into the ledger
			}
			let, ok := r.letter(partition, rec)
			if !ok {
				continue
			}
			if err := visit(ctx, rec, let); err != nil {
				return err
			}
		}
		if b.Next <= off {
			return nil // there is no more, whatever the bounds said
		}
		off = b.Next
	}
	return nil
}

// visitGone notes the ids of letters that are done with: after a crash the topic
// may hold one twice, of which one place is known.
func (r *rebuild) visitGone(_ context.Context, rec *storage.Record, let *Letter) error {
	if r.gone[let.LetterPartition].Contains(rec.Offset) {
		r.skip[let.ID] = struct{}{}
	}
	return nil
}

// visit adds a letter that the ledger lacks.
func (r *rebuild) visit(ctx context.Context, _ *storage.Record, let *Letter) error {
	r.found[let.ID] = struct{}{}
	if _, known := r.skip[let.ID]; known {
		return nil
	}
	r.skip[let.ID] = struct{}{}
	r.txn.Sets = append(r.txn.Sets, offsetstore.Record{Space: ledgerSpace, Key: let.key(), Value: let.encode()})
	if len(r.txn.Sets) < rebuildGroup {
		return nil
	}
	return r.flush(ctx)
}

func (r *rebuild) flush(ctx context.Context) error {
	if len(r.txn.Sets) == 0 {
		return nil
	}
	if err := offsetstore.Commit(ctx, r.d.store, r.txn); err != nil {
		return err
	}
	r.added += int64(len(r.txn.Sets))
	r.txn = &offsetstore.Txn{}
	return nil
}

// letter reads a record as a dead letter of the topic; not ok: it is none.
func (r *rebuild) letter(partition string, rec *storage.Record) (*Letter, bool) {
	let := &Letter{LetterTopic: r.at.Name, LetterPartition: partition, LetterOffset: rec.Offset, Time: rec.Time}
	err := errNoLetter
	if view, bad := frame.Parse(rec.Frame); bad == nil {
		err = let.read(view)
	}
	if err != nil {
		r.broken++
		return nil, false
	}
	return let, let.Topic == r.topic
}

var errNoLetter = errors.New("no dead letter")

// read takes over what stampLetter has written.
func (let *Letter) read(v frame.View) (err error) {
	var off, attempts string
	for name, field := range map[string]*string{
		frame.AttrDLQID: &let.ID, frame.AttrDLQTopic: &let.Topic, frame.AttrDLQPartition: &let.Partition,
		frame.AttrDLQSubscriber: &let.Subscriber, frame.AttrDLQReason: &let.Reason,
		frame.AttrDLQOffset: &off, frame.AttrDLQAttempts: &attempts,
	} {
		value, ok := v.Attr(name)
		if !ok {
			return errNoLetter
		}
		*field = string(value)
	}
	let.Reason, let.Detail, _ = strings.Cut(let.Reason, ": ")
	if let.Offset, err = strconv.ParseInt(off, 10, 64); err != nil {
		return errNoLetter
	}
	n, err := strconv.ParseInt(attempts, 10, 32)
	if err != nil || let.ID == "" {
		return errNoLetter
	}
	let.Attempts = int32(n)
	if _, err := offsetstore.ParseSubscriber(let.Subscriber); err != nil {
		return errNoLetter
	}
	return nil
}
