package frame_test

import (
	"fmt"

	"github.com/ackmesh/ackmesh/frame"
)

// A CloudEvent becomes the bytes that a log stores, which are then read in place.
func Example() {
	event, err := frame.FromCloudEventJSON([]byte(`{
		"specversion": "1.0", "id": "a", "source": "/orders", "type": "order.created",
		"time": "2026-01-02T03:04:05.123456789Z", "data": {"total": 12}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := frame.Append(nil, &event)
	if err != nil {
		fmt.Println(err)
		return
	}
	view, err := frame.Parse(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	when, _ := view.Attr(frame.AttrTime)
	fmt.Printf("%s %s\n", when, view.Data())
	// Output: 2026-01-02T03:04:05.123456789Z {"total": 12}
}
