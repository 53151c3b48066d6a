package storagetest

import (
	"context"

	"github.com/ackmesh/ackmesh/storage"
)

func hasFingerprint(h *Harness) bool { return h.Has.Fingerprinter }

var fingerprintCases = []testCase{
	{name: "Fingerprint/OfRecordBefore", needs: hasFingerprint, run: fingerprintOfRecord},
	{name: "Fingerprint/Recreated", needs: func(h *Harness) bool { return h.Has.Fingerprinter && h.Has.TopicAdmin }, run: fingerprintRecreated},
	{name: "Fingerprint/Missing", needs: hasFingerprint, run: fingerprintMissing},
	{name: "Fingerprint/Trimmed", needs: func(h *Harness) bool { return h.Has.Fingerprinter && hasTrimmer(h) }, run: fingerprintTrimmed},
	{name: "Fingerprint/SurvivesReopen", needs: func(h *Harness) bool { return h.Has.Fingerprinter && canReopen(h) }, run: fingerprintSurvives},
}

// print1 is an answer.
type print1 struct {
	storage.Fingerprint
	ok bool
}

func (c *env) fingerprint(topic, partition string, next int64) (p print1) {
	c.Helper()
	c.must("Fingerprint", func(ctx context.Context) (err error) {
		p.Fingerprint, p.ok, err = need[storage.Fingerprinter](c).Fingerprint(ctx, topic, partition, next)
		return err
	})
	return p
}

// recordAt is the fingerprint of the record that a Poll returns.
func (c *env) recordAt(topic, partition string, off int64) storage.Fingerprint {
	c.Helper()
	b := c.poll(storage.PollRequest{Topic: topic, Partition: partition, Start: off, MaxRecords: 1})
	if len(b.Records) != 1 {
		c.Fatalf("there are %d records at offset %d, not one", len(b.Records), off)
	}
	return b.Records[0].Fingerprint()
}

// fingerprintOfRecord: it is that of the record before, as it is read, over gaps
// and beyond the end, always the same, and different for different records.
func fingerprintOfRecord(c *env) {
	t := c.topic(1)
	part := t.Partitions[0]
	if c.h.Has.Bounder {
		if _, high := c.bounds(t.Name, part); c.fingerprint(t.Name, part, high).ok {
			c.Errorf("an empty partition has a fingerprint")
		}
	}
	list := c.fill(t.Name, "", "a", 5)
	if c.fingerprint(t.Name, part, list[0].offset).ok {
		c.Errorf("there is a fingerprint before the first record")
	}
	seen := map[uint64]bool{}
	for i, s := range list {
		p := c.fingerprint(t.Name, part, s.offset+1)
		if !p.ok || seen[p.Hash] {
			c.Errorf("fingerprint of record %d is %+v, or like another's", i, p)
		}
		if rec := c.recordAt(t.Name, part, s.offset); rec != p.Fingerprint {
			c.Errorf("fingerprint of record %d is %+v, that of the record which is read is %+v", i, p, rec)
		}
		seen[p.Hash] = true
		if i+1 < len(list) && c.fingerprint(t.Name, part, list[i+1].offset) != p {
			c.Errorf("the fingerprint before record %d is not that of record %d", i+1, i)
		}
	}
	c.fill(t.Name, "", "b", 5)
	if got := c.fingerprint(t.Name, part, list[4].offset+1); !seen[got.Hash] {
		c.Errorf("a fingerprint changed with later records")
	}
}

// fingerprintRecreated: another record at the same offset is told apart.
func fingerprintRecreated(c *env) {
	old := c.topic(1)
	list := c.fill(old.Name, "", "old", 5)
	was := c.fingerprint(old.Name, list[0].partition, list[2].offset+1)
	t := c.recreate(old)
	if p := c.fingerprint(t.Name, list[0].partition, list[2].offset+1); p.ok {
		c.Errorf("an empty topic, made again, has the fingerprint %+v", p)
	}
	grown := c.fill(t.Name, "", "new", 5)
	if p := c.fingerprint(t.Name, grown[2].partition, grown[2].offset+1); !p.ok || p.Hash == was.Hash {
		c.Errorf("the fingerprint was %+v and is %+v for another record", was, p)
	}
}

func fingerprintMissing(c *env) {
	t := c.topic(1)
	b := need[storage.Fingerprinter](c)
	c.wantErr("Fingerprint", func(ctx context.Context) error {
		_, _, err := b.Fingerprint(ctx, topicName(), t.Partitions[0], 1)
		return err
	}, storage.ErrTopicNotFound)
	c.wantErr("Fingerprint", func(ctx context.Context) error {
		_, _, err := b.Fingerprint(ctx, t.Name, "no such partition", 1)
		return err
	}, storage.ErrPartitionNotFound)
}

// fingerprintTrimmed: of a record that is gone there is none.
func fingerprintTrimmed(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 6)
	part := list[0].partition
	was := c.fingerprint(t.Name, part, list[4].offset+1)
	c.trim(t.Name, part, list[3].offset)
	for i, s := range list {
		if p := c.fingerprint(t.Name, part, s.offset+1); p.ok != (i >= 3) {
			c.Errorf("after Trim to record 3, the fingerprint of record %d is %+v", i, p)
		}
	}
	if p := c.fingerprint(t.Name, part, list[4].offset+1); p != was {
		c.Errorf("Trim changed a fingerprint from %+v to %+v", was, p)
	}
}

func fingerprintSurvives(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 3)
	was := c.fingerprint(t.Name, list[1].partition, list[1].offset+1)
	c.reopen()
	if p := c.fingerprint(t.Name, list[1].partition, list[1].offset+1); p != was {
		c.Errorf("the fingerprint was %+v and is %+v after reopening", was, p)
	}
}
