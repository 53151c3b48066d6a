package dispatch

import (
	"context"
	"testing"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// TestRebuildKeepsToItsEnd: a letter that is written after a rebuild has looked
// what is on its way into the ledger is not its business, although reading may
// bring it: it gets its entry by itself.
func TestRebuildKeepsToItsEnd(t *testing.T) {
	r := newRig(t, Config{})
	r.publish(2)
	ctx := context.Background()
	key := offsetstore.Key{Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}, Partition: "0"}
	write := func(off int64) Letter {
		t.Helper()
		let := Letter{
			ID: letterID(key, "", off, 0), Topic: key.Topic, Subscriber: key.Subscriber.String(), Partition: key.Partition,
			Offset: off, Reason: "attempts", Attempts: 6,
		}
		if err := r.d.writeLetter(ctx, &let); err != nil {
			t.Fatal(err)
		}
		return let
	}
	before := write(0)
	rb, err := r.d.newRebuild(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	write(1)
	if err := rb.run(ctx); err != nil {
		t.Fatal(err)
	}
	list, _, err := r.d.Letters(LetterQuery{Topic: "t"})
	if err != nil || len(list) != 1 || list[0].ID != before.ID || len(rb.found) != 1 || rb.added != 1 {
		t.Errorf("in the ledger: %v (%v), found %d, added %d; want %s alone", list, err, len(rb.found), rb.added, before.ID)
	}
}
