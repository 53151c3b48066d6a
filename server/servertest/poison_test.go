package servertest_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestPoisonInOneOfFourPartitions: the client dies on receiving one record of one
// partition, with records of all four in flight each time; the poison is sent at
// most six times, and nothing dies with it, wherever in its partition it is.
func TestPoisonInOneOfFourPartitions(t *testing.T) {
	for _, at := range []int{0, 25, 49} {
		bubble(t, func(t *testing.T) {
			in := Start(t, Options{Backend: Log(t, 4)})
			s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
			for i := range 200 {
				data := fmt.Sprint(i)
				if i == 4*at {
					data = "poison"
				}
				publishKey(t, in, "t", fmt.Sprint("key-", i%4), data)
			}
			sent, finished := 0, map[string]bool{}
			for lives := 0; len(letters(t, in, "t")) == 0 || len(finished) < 199; lives++ {
				if sent > 6 || lives > 300 {
					t.Fatalf("the poison was sent %d times, %d others are finished", sent, len(finished))
				}
				if sent < 2 {
					s.Await(time.Second, 200) // with all in flight
				}
				if s.UntilPoison(finished) {
					sent++
				}
				broken(s)
				s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
			}
			if list := letters(t, in, "t"); len(list) != 1 || string(list[0].GetFrame().GetData()) != "poison" {
				t.Errorf("dead letters: %v", list)
			}
			if finished["poison"] {
				t.Error("the poison was finished")
			}
		})
	}
}
