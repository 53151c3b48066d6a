package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// goneSpace holds, for each partition of a topic of dead letters, the offsets of
// those that were replayed or purged: they are in the topic still, and must not
// come back into the ledger when it is rebuilt.
const goneSpace = "deadletters-gone"

// goneLetters are the letters of one partition that are done with.
type goneLetters struct {
	// TopicID is the identity of the topic of dead letters: of another one
	// nothing is gone.
	TopicID string `json:"topicId,omitempty"`
	// Ranges are sorted and disjoint, both ends included.
	Ranges [][2]int64 `json:"ranges"`
}

func goneKey(letterTopic, partition string) string {
	return fmt.Sprintf("%d:%s%s", len(letterTopic), letterTopic, partition)
}

// readGone reads which letters of a partition are done with.
func (d *Dispatcher) readGone(topic storage.Topic, partition string) (*offset.Set, error) {
	set := offset.NewSet(nil)
	raw, ok, err := d.store.GetRecord(goneSpace, goneKey(topic.Name, partition))
	if err != nil || !ok {
		return set, err
	}
	var gone goneLetters
	if err := json.Unmarshal(raw, &gone); err != nil {
		return nil, fmt.Errorf("purged dead letters of topic %q partition %q: %w (%w)", topic.Name, partition, offsetstore.ErrCorrupt, err)
	}
	if gone.TopicID != topic.ID {
		return set, nil
	}
	for _, r := range gone.Ranges {
		set.Add(offset.Range{First: r[0], Last: r[1]})
	}
	return set, nil
}

// goneRecord is what keeps a set; what the log has removed is left out.
func (d *Dispatcher) goneRecord(ctx context.Context, topic storage.Topic, partition string, set *offset.Set) (offsetstore.Record, error) {
	if low, _, err := d.bounds(ctx, topic.Name, partition); err == nil {
		set.TrimBelow(low)
	}
	gone := goneLetters{TopicID: topic.ID}
	for _, r := range set.Ranges() {
		gone.Ranges = append(gone.Ranges, [2]int64{r.First, r.Last})
	}
	raw, err := json.Marshal(gone)
	return offsetstore.Record{Space: goneSpace, Key: goneKey(topic.Name, partition), Value: raw}, err
}

// forgetLetters takes letters off the ledger for good. The ledger is locked: what
// is gone is read and written back.
func (d *Dispatcher) forgetLetters(ctx context.Context, list []Letter) error {
	txn := &offsetstore.Txn{}
	places := map[string]map[string][]int64{} // by topic of letters and partition
	for i := range list {
		let := &list[i]
		txn.Unsets = append(txn.Unsets, offsetstore.Record{Space: ledgerSpace, Key: let.key()})
		if let.LetterTopic == "" {
			continue
		}
		byPart := places[let.LetterTopic]
		if byPart == nil {
			byPart = map[string][]int64{}
			places[let.LetterTopic] = byPart
		}
		byPart[let.LetterPartition] = append(byPart[let.LetterPartition], let.LetterOffset)
	}
	for name, byPart := range places {
		topic, err := d.backend.Topic(ctx, name)
		if errors.Is(err, storage.ErrTopicNotFound) {
			continue // nothing can come back from it
		}
		if err != nil {
			return err
		}
		for partition, offs := range byPart {
			set, err := d.readGone(topic, partition)
			if err != nil {
				return err
			}
			for _, off := range offs {
				set.Add(offset.Range{First: off, Last: off})
			}
			rec, err := d.goneRecord(ctx, topic, partition, set)
			if err != nil {
				return err
			}
			txn.Sets = append(txn.Sets, rec)
		}
	}
	return offsetstore.Commit(ctx, d.store, txn)
}
