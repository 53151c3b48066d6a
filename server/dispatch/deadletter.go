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
	"unicode/utf8"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// ledgerSpace holds an entry for each dead letter. The topic of dead letters
// may repeat an id after a crash, the ledger never does.
const ledgerSpace = "deadletters"

// Letter is a dead letter as the ledger has it.
type Letter struct {
	ID    string `json:"id"`
	Topic string `json:"topic"`
	// TopicID is the topic's identity, where the log has them.
	TopicID    string `json:"topicId,omitempty"`
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

// letterID is the hash of what makes a dead letter one. topicID is the topic's
// identity: in one that was made anew offsets and epochs begin again.
func letterID(key offsetstore.Key, topicID string, off int64, epoch uint64) string {
	h := sha256.New()
	for _, s := range []string{key.Topic, topicID, key.Subscriber.String(), key.Partition} {
		_ = binary.Write(h, binary.BigEndian, uint32(len(s))) // a hash takes everything
		h.Write([]byte(s))
	}
	_ = binary.Write(h, binary.BigEndian, off)
	_ = binary.Write(h, binary.BigEndian, epoch)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ledgerPrefix is what the keys of a topic's letters begin with.
func ledgerPrefix(topic string) string { return fmt.Sprintf("%d:%s", len(topic), topic) }

// key orders the letters of a topic by the time of their death.
func (let *Letter) key() string {
	return fmt.Sprintf("%s%016x%s", ledgerPrefix(let.Topic), let.Time, let.ID)
}

// encode is the letter as the store keeps it.
func (let *Letter) encode() []byte {
	raw, _ := json.Marshal(let) // numbers and text always encode
	return raw
}

// writeLetter publishes a letter whose intent is durable.
func (d *Dispatcher) writeLetter(ctx context.Context, let *Letter) error {
	if strings.HasSuffix(let.Topic, DeadLetterSuffix) {
		return nil // dead letters have no dead letters: it stays where it is
	}
	rec, err := d.readOne(ctx, let.Topic, let.TopicID, let.Partition, let.Offset)
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

// readOne reads the record at an offset; nil: there is none, or not in the topic
// of that identity. No identity is any.
func (d *Dispatcher) readOne(ctx context.Context, topic, topicID, partition string, off int64) (*storage.Record, error) {
	lite, err := d.holdsLites(ctx, topic)
	if err != nil {
		return nil, err
	}
	var b storage.Batch
	req := storage.PollRequest{Topic: topic, TopicID: topicID, Partition: partition, Start: off, MaxRecords: 1}
	if lite {
		err = d.lites.PollLite(ctx, req, &b)
	} else {
		err = d.backend.Poll(ctx, req, &b)
	}
	var rng *storage.RangeError
	switch {
	case errors.As(err, &rng), topicID != "" && errors.Is(err, storage.ErrTopicChanged):
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
		makeRoom(&f)
		out, err = frame.Append(nil, &f)
	}
	return out, err
}

// makeRoom takes attributes out of a frame that has too many, none of those by which
// an event is known and read.
func makeRoom(f *frame.Frame) {
	for i := len(f.Attributes) - 1; i >= 0 && len(f.Attributes) > frame.MaxAttributes; i-- {
		switch name := f.Attributes[i].Name; name {
		case frame.AttrID, frame.AttrSource, frame.AttrType, frame.AttrSubject, frame.AttrTime, frame.AttrDataContentType,
			frame.AttrDataSchema, frame.AttrSpecVersion, frame.AttrPartitionKey, frame.AttrTraceParent, frame.AttrTraceState:
		default:
			if !frame.Reserved(name) {
				f.Delete(name)
			}
		}
	}
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
