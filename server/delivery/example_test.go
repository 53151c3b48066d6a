package delivery_test

import (
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
)

// The way of a few records: delivered, acked out of order, one timed out and
// sent again.
func Example() {
	now := time.Now()
	m := delivery.New(delivery.Settings{}, offsetstore.Value{}, now, nil)
	m.Attach(1, 30*time.Second)

	var offs []int64
	for off := m.NextNew(); off < 5 && m.Offer(off, 0) == delivery.Send; off++ {
		offs = append(offs, off)
	}
	m.Sent(1, 100, offs) // delivery ids 100 to 104
	m.Handed(now, 1, 100)

	m.Ack(now, 1, 100, 0b11101) // all but offset 1
	v := m.Snapshot()
	fmt.Println("save position", v.Position, "finished ahead", v.Finished)
	for _, a := range m.EndCommit(now, true) {
		fmt.Printf("durable: deliveries %d + %b\n", a.First, a.Mask)
	}

	now = now.Add(30 * time.Second)
	fmt.Printf("timed out: %b\n", m.Tick(now)[0].Mask)
	m.Snapshot() // the attempt is saved before it is sent
	m.EndCommit(now, true)
	for _, it := range m.Next(10) {
		fmt.Println("send again", it.Offset, "as attempt", it.Attempt)
	}
	// Output:
	// save position 1 finished ahead [2-4]
	// durable: deliveries 100 + 11101
	// timed out: 10
	// send again 1 as attempt 2
}
