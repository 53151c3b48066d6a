package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/ackmesh/ackmesh/frame"
	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// lettersServer has dead letters, every third of which is not shown. Only a page of
// one has room for an event; the first is as large as events get.
type lettersServer struct {
	fakeServer
	ids  []string
	left int64 // what a replay does not come to; below 0: anything
}

func (s *lettersServer) ListDeadLetters(_ context.Context, req *ackmeshv1.ListDeadLettersRequest) (*ackmeshv1.ListDeadLettersResponse, error) {
	from, _ := strconv.Atoi(req.GetPageToken()) // none: from the first
	page := &ackmeshv1.ListDeadLettersResponse{}
	for i := from; i < len(s.ids) && i < from+int(req.GetPageSize()); i++ {
		if i%3 == 2 {
			continue
		}
		letter := &ackmeshv1.DeadLetter{Id: s.ids[i], Topic: req.GetTopic()}
		if req.GetPageSize() == 1 {
			letter.Frame = &ackmeshv1.EventMeshFrame{Attributes: map[string]string{"subject": "event of " + s.ids[i]}}
			if i == 0 {
				letter.Frame.Data = make([]byte, frame.MaxDataSize)
			}
		}
		page.DeadLetters = append(page.DeadLetters, letter)
	}
	if next := from + int(req.GetPageSize()); next < len(s.ids) {
		page.NextPageToken = fmt.Sprint(next)
	}
	return page, nil
}

func (s *lettersServer) count(ids []string) (n int64) {
	for _, id := range s.ids {
		if len(ids) == 0 || slices.Contains(ids, id) {
			n++
		}
	}
	return n
}

func (s *lettersServer) ReplayDeadLetters(ctx context.Context, req *ackmeshv1.ReplayDeadLettersRequest) (*ackmeshv1.ReplayDeadLettersResponse, error) {
	if s.left < 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &ackmeshv1.ReplayDeadLettersResponse{Replayed: s.count(req.GetIds()) - s.left, Left: s.left}, nil
}

func (s *lettersServer) PurgeDeadLetters(_ context.Context, req *ackmeshv1.PurgeDeadLettersRequest) (*ackmeshv1.PurgeDeadLettersResponse, error) {
	return &ackmeshv1.PurgeDeadLettersResponse{Purged: s.count(req.GetIds())}, nil
}

// start serves until the test ends.
func (s *lettersServer) start(t *testing.T) string { return startAdmin(t, s, s) }

// TestDeadLetterCommands: a letter is shown with its event wherever it is in the
// list, and ids that are none are told.
func TestDeadLetterCommands(t *testing.T) {
	s := &lettersServer{}
	for i := range 600 {
		s.ids = append(s.ids, fmt.Sprint("id", i))
	}
	addr := s.start(t)
	dlq := func(args ...string) output {
		return call(t, nil, append(append([]string{"dlq"}, args...), "--topic", "orders", "--admin", addr)...)
	}
	for _, id := range []string{"id0", "id1", "id498", "id499", "id501", "id598"} {
		dlq("show", id).want(t, exitOK, `"event of `+id+`"`)
	}
	dlq("show", "none").want(t, exitFailed, `topic "orders" has no dead letter "none"`)
	dlq("list", "--limit", "334").want(t, exitOK, "id499")
	dlq("list", "--limit", "-1").want(t, exitUsage, "--limit")
	dlq("replay", "id1", "id2", "id1").want(t, exitOK, "2 dead letters were published again")
	dlq("purge", "id1").want(t, exitOK, "1 dead letters were purged")
	for _, what := range []string{"replay", "purge"} {
		dlq(what, "id1", "none", "nothing").want(t, exitFailed, "1 dead letters were", "2 of the 3 ids", `topic "orders"`, "dlq list")
		dlq(what, "--all").want(t, exitOK, "600 dead letters")
	}
}

// TestReplayBeyondTimeout: a replay that --timeout ends says how many were
// published, where that is known, and how to go on.
func TestReplayBeyondTimeout(t *testing.T) {
	s := &lettersServer{ids: []string{"a", "b", "c"}, left: 2}
	part := s.start(t)
	call(t, nil, "dlq", "replay", "--all", "--topic", "orders", "--admin", part, "--timeout", "7s").
		want(t, exitFailed, "1 dead letters were published again\n", "2 dead letters are left, since --timeout 7s was over: the same command goes on")
	none := (&lettersServer{left: -1}).start(t)
	call(t, nil, "dlq", "replay", "--all", "--topic", "orders", "--admin", none, "--timeout", "1ms").
		want(t, exitFailed, none+": DEADLINE_EXCEEDED: ", "how many were published again is not known", "the same command goes on")
}
