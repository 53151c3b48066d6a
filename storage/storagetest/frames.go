package storagetest

import (
	"context"
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
)

var frameCases = []testCase{
	{name: "Frame/Attributes", run: frameAttributes},
	{name: "Frame/AnyBytes", run: frameAnyBytes},
	{name: "Frame/Own", run: frameOwn},
	{name: "Frame/Large", run: frameLarge},
}

// frameAttributes: frames of 0, 1, 63 and 64 attributes, also of the largest
// size, come back as they were.
func frameAttributes(c *env) {
	t := c.topic(1)
	var events []storage.Event
	for _, n := range []int{0, 1, 63, 64} {
		events = append(events, storage.Event{Frame: Frame([]byte("x"), attributes(n, 10)...)})
		events = append(events, storage.Event{Frame: Frame(nil, attributes(n, 4096)...)})
	}
	c.wantTheOnly(t, c.send(t.Name, events).stored(c))
}

// attributes makes n names with values of so many bytes.
func attributes(n, size int) (list []string) {
	for i := range n {
		value := make([]byte, size)
		for k := range value {
			value[k] = 'a' + byte((i+k)%26)
		}
		list = append(list, fmt.Sprintf("attribute%d", i), string(value))
	}
	return list
}

// frameAnyBytes: data is bytes, not text.
func frameAnyBytes(c *env) {
	t := c.topic(1)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	events := []storage.Event{
		{Frame: Frame(nil)},
		{Frame: Frame(all, "id", "ключ 鍵 🔑")},
		{Frame: Frame([]byte("\x00\x00\x00"), "id", "")},
	}
	c.wantTheOnly(t, c.send(t.Name, events).stored(c))
}

// frameOwn: attributes that mean something to the mesh are found wherever they
// stand, also by who relies on Record.Plain.
func frameOwn(c *env) {
	t := c.topic(1)
	events := []storage.Event{
		{Frame: Frame([]byte("em"), "id", "1", "source", "em")},
		{Frame: Frame(nil, "emttl", "1000", "id", "2")},
		{Frame: Frame(nil, "id", "3", "emttl", "1000")},
		{Frame: Frame(nil, "id", "4", "em", "", "type", "t")},
	}
	c.wantTheOnly(t, c.send(t.Name, events).stored(c))
}

// frameLarge: 8 MiB of data, or what the backend takes, between small ones,
// are read one at a time even where MaxBytes is less.
func frameLarge(c *env) {
	t := c.topic(1)
	large := min(c.h.MaxFrame, 8<<20+1000)
	list := c.fill(t.Name, "", "a", 2)
	for i := range 2 {
		list = append(list, c.send(t.Name, []storage.Event{{Frame: sized(fmt.Sprint(i), large)}}).stored(c)...)
	}
	list = append(list, c.fill(t.Name, "", "b", 2)...)
	got := c.read(t.Name, list[0].partition, list[0].offset, len(list), func(r *storage.PollRequest) { r.MaxBytes = 4096 })
	c.wantRecords("with MaxBytes 4096", got, list)
	batch := new(storage.Batch)
	req := storage.PollRequest{Topic: t.Name, Partition: list[0].partition, Start: list[2].offset, MaxBytes: 1, Wait: c.h.Patience / 2}
	c.must("Poll", func(ctx context.Context) error { return c.b.Poll(ctx, req, batch) })
	if len(batch.Records) != 1 {
		c.Errorf("with MaxBytes 1 a poll gave %d records, want 1", len(batch.Records))
	}
}
