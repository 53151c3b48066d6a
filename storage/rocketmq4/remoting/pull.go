package remoting

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// ToolsGroup is a group that every broker has built in. Reading in its name
// without committing leaves no group, no retry topic and no offset there.
const ToolsGroup = "TOOLS_CONSUMER"

// Bits of the system flag of a pull. Committing an offset would be 1.
const (
	pullSuspend      = 2
	pullSubscription = 4
)

// PullStatus says what a pull found.
type PullStatus int

// The outcomes.
const (
	// PullFound: there are messages.
	PullFound PullStatus = iota
	// PullNone: there is nothing at the offset now.
	PullNone
	// PullRetry: go on at NextOffset at once; nothing is in between, or the
	// slave that was asked is not to be read.
	PullRetry
	// PullMoved: the offset is outside what the queue holds.
	PullMoved
)

// PullRequest says what to read. A pull below the minimum or beyond the
// maximum makes a broker write a message into its OFFSET_MOVED_EVENT: look at
// the bounds first.
type PullRequest struct {
	Queue
	// Offset is the lowest offset to return.
	Offset int64
	// Max is how many messages to return at most; the broker has a limit of
	// its own, 32 by default. 0: 32.
	Max int
	// Wait is how long the broker may hold the request at the end of the
	// queue. It looks at its clock every 5 s, so it takes up to that longer.
	// 0: it answers at once.
	Wait time.Duration
	// Group is in whose name to read. Empty: ToolsGroup.
	Group string
}

// PullResult is what a pull found.
type PullResult struct {
	Status PullStatus
	// NextOffset is where to go on, Min and Max are the queue's bounds as
	// the broker knows them.
	NextOffset, Min, Max int64
	// Suggested is the number of the broker to read from next: 0 is the
	// master.
	Suggested int64
	// Body holds the messages, for DecodeMessages; it is the caller's.
	Body []byte
}

// pullGrace is how long beyond its wait a broker may hold a pull: it looks at
// its clock every 5 s.
const pullGrace = 6 * time.Second

// Pull reads messages of a queue from a broker, master or slave. It commits
// nothing. Errors: an *Error (CodeTopicNotExist, CodeNoPermission,
// CodeSystemError where the queue's number is too high), and those of Call.
func (c *Client) Pull(ctx context.Context, addr string, req PullRequest) (*PullResult, error) {
	f := req.fields()
	group, most, flag := req.Group, req.Max, pullSubscription
	if group == "" {
		group = ToolsGroup
	}
	if most == 0 {
		most = 32
	}
	limit := time.Duration(0)
	if req.Wait > 0 {
		flag |= pullSuspend
		limit = req.Wait + pullGrace
	}
	f["consumerGroup"] = group
	f["queueOffset"] = strconv.FormatInt(req.Offset, 10)
	f["maxMsgNums"] = strconv.Itoa(most)
	f["sysFlag"] = strconv.Itoa(flag)
	f["commitOffset"] = "0"
	f["suspendTimeoutMillis"] = strconv.FormatInt(req.Wait.Milliseconds(), 10)
	f["subscription"] = "*"
	f["subVersion"] = "0"
	f["expressionType"] = "TAG"
	op := fmt.Sprintf("pull of %v at %d", req.Queue, req.Offset)
	res, err := c.ask(ctx, addr, op, &Command{Code: reqPull, Fields: f}, limit, CodePullNotFound, CodePullRetry, CodePullOffsetMoved)
	if err != nil {
		return nil, err
	}
	r, err := pullResult(&res)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", op, addr, err)
	}
	return r, nil
}

func pullResult(res *Command) (r *PullResult, err error) {
	r = &PullResult{Body: res.Body}
	switch res.Code {
	case CodePullNotFound:
		r.Status = PullNone
	case CodePullRetry:
		r.Status = PullRetry
	case CodePullOffsetMoved:
		r.Status = PullMoved
	}
	for _, field := range []struct {
		name string
		to   *int64
	}{{"nextBeginOffset", &r.NextOffset}, {"minOffset", &r.Min}, {"maxOffset", &r.Max}} {
		if *field.to, err = res.number(field.name); err != nil {
			return nil, err
		}
	}
	r.Suggested, err = strconv.ParseInt(res.Fields["suggestWhichBrokerId"], 10, 64)
	if err != nil {
		r.Suggested = 0 // old brokers leave it out
	}
	return r, nil
}
