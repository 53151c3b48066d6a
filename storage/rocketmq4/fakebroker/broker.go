package fakebroker

import (
	"context"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

func (b *broker) serve(ctx context.Context, req *remoting.Command) *remoting.Command {
	return b.c.serve(ctx, req, b.handle)
}

func (b *broker) handle(ctx context.Context, req *remoting.Command) *remoting.Command {
	if b.of != nil && req.Code != CodePull {
		return fail(remoting.CodeNoPermission, "a slave is only read")
	}
	if user := b.c.opts.Credentials; user != nil && !user.Verify(req) {
		return fail(remoting.CodeSystemError, "org.apache.rocketmq.acl.common.AclException: Check signature failed")
	}
	switch req.Code {
	case CodePull:
		return b.pull(ctx, req)
	case CodeSend, CodeSendBatch:
		return b.send(req)
	case CodeMax, CodeMin, CodeSearch, CodeEarliest:
		return b.bound(req)
	case CodeTopicStats:
		return b.stats(req)
	case CodeCreateTopic:
		return b.create(req)
	case CodeDelete:
		return b.delete(req)
	}
	return fail(remoting.CodeNotSupported, "request code not supported")
}

// field reads a number; what is none is 0.
func field(req *remoting.Command, name string) int64 {
	n, err := strconv.ParseInt(req.Fields[name], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (b *broker) create(req *remoting.Command) *remoting.Command {
	name := req.Fields["topic"]
	if b.c.opts.NoCreate {
		return fail(remoting.CodeNoPermission, "creating topics is forbidden")
	}
	if name == "" || len(name) > 127 || strings.Trim(name, nameBytes) != "" {
		return fail(remoting.CodeSystemError, "The specified topic contains illegal characters")
	}
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.createAt(b.name, name, int(field(req, "writeQueueNums")))
	b.c.tell()
	return &remoting.Command{}
}

// nameBytes are the bytes of names of topics.
const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%|"

func (b *broker) delete(req *remoting.Command) *remoting.Command {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	name := req.Fields["topic"]
	if t := b.c.topics[name]; t != nil {
		delete(t.queues, b.name)
		if len(t.queues) == 0 {
			delete(b.c.topics, name)
		}
	}
	b.c.tell()
	return &remoting.Command{}
}

func (b *broker) stats(req *remoting.Command) *remoting.Command {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t := b.c.topics[req.Fields["topic"]]
	if t == nil || t.queues[b.name] == nil {
		return fail(remoting.CodeTopicNotExist, "topic not exist")
	}
	return &remoting.Command{Body: []byte(`{"offsetTable":{}}`)}
}

// bound answers questions after one number. What is missing has 0.
func (b *broker) bound(req *remoting.Command) *remoting.Command {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	q := b.c.queue(b.name, req.Fields["topic"], int(field(req, "queueId")))
	name, n := "offset", int64(0)
	switch {
	case req.Code == CodeEarliest:
		name, n = "timestamp", -1
		if q != nil && len(q.messages) > 0 {
			n = q.messages[0].StoreTime
		}
	case q == nil:
	case req.Code == CodeMax:
		n = q.max()
	case req.Code == CodeMin:
		n = q.base
	case req.Code == CodeSearch:
		n = q.nearest(field(req, "timestamp"))
	}
	return &remoting.Command{Fields: map[string]string{name: strconv.FormatInt(n, 10)}}
}

// nearest is the offset of the message that is nearest to a time; after the
// last one the maximum - 1, as 4.9.7 has it.
func (q *queue) nearest(ms int64) int64 {
	i := sort.Search(len(q.messages), func(i int) bool { return q.messages[i].StoreTime >= ms })
	if i > 0 && (i == len(q.messages) || ms-q.messages[i-1].StoreTime < q.messages[i].StoreTime-ms) {
		i--
	}
	return q.base + int64(i)
}

func (b *broker) send(req *remoting.Command) *remoting.Command {
	name, id := req.Fields["b"], int(field(req, "e"))
	list := []remoting.OutMessage{{Body: req.Body, Properties: req.Fields["i"]}}
	if req.Code == CodeSendBatch {
		var err error
		if list, err = remoting.DecodeBatch(req.Body); err != nil {
			return fail(remoting.CodeMessageIllegal, err.Error())
		}
	}
	size := 0
	var messages []remoting.Message
	for _, m := range list {
		size += len(m.Body) + len(m.Properties) + len(name) + 91
		messages = append(messages, remoting.Message{Body: append([]byte(nil), m.Body...), Properties: m.Properties, BornTime: field(req, "g")})
	}
	if size > b.c.opts.MaxMessage {
		return fail(remoting.CodeMessageIllegal, "the message is illegal, maybe msg body or properties length not matched")
	}
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t := b.c.topics[name]
	if t == nil || t.queues[b.name] == nil {
		return fail(remoting.CodeTopicNotExist, "topic["+name+"] not exist, apply first please!")
	}
	q := b.c.queue(b.name, name, id)
	if q == nil {
		return fail(remoting.CodeSystemError, "request queueId["+strconv.Itoa(id)+"] is illegal")
	}
	if !b.up {
		return nil
	}
	first := b.c.store(b, name, id, q, messages)
	return &remoting.Command{Fields: map[string]string{
		"queueId": strconv.Itoa(id), "queueOffset": strconv.FormatInt(first, 10), "msgId": q.messages[first-q.base].ID(),
	}}
}

// pull answers at once, or when there is something, or after the time that the
// request gives.
func (b *broker) pull(ctx context.Context, req *remoting.Command) *remoting.Command {
	wait := time.Duration(0)
	if field(req, "sysFlag")&2 != 0 {
		wait = time.Duration(field(req, "suspendTimeoutMillis")) * time.Millisecond
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for over := wait == 0; ; {
		b.c.mu.Lock()
		res, changed := b.pullNow(req), b.c.changed
		b.c.mu.Unlock()
		if res.Code != remoting.CodePullNotFound || over {
			return res
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return nil
		}
	}
}

// pullNow answers with what there is; the lock is held.
func (b *broker) pullNow(req *remoting.Command) *remoting.Command {
	name, id, offset := req.Fields["topic"], int(field(req, "queueId")), field(req, "queueOffset")
	t := b.c.topics[name]
	if t == nil || t.queues[b.name] == nil {
		return fail(remoting.CodeTopicNotExist, "topic["+name+"] not exist, apply first please!")
	}
	q := b.c.queue(b.name, name, id)
	if q == nil {
		return fail(remoting.CodeSystemError, "queueId["+strconv.Itoa(id)+"] is illegal")
	}
	high := q.max()
	if b.of != nil {
		high = max(high-b.c.lag, q.base)
		b.c.slow++
	}
	code, next := remoting.CodeSuccess, offset
	var body []byte
	switch {
	case len(q.messages) == 0 && offset != 0 && q.base == 0, offset < q.base, offset > high:
		code, next = remoting.CodePullOffsetMoved, q.base
		if offset > high && q.base > 0 {
			next = high
		}
		b.c.moved++
	case offset == high:
		code = remoting.CodePullNotFound
	default:
		body, next = q.from(offset, high, min(int(field(req, "maxMsgNums")), b.c.opts.PullMax))
		if len(body) == 0 {
			code = remoting.CodePullRetry
		}
	}
	return &remoting.Command{Code: code, Body: body, Fields: map[string]string{
		"suggestWhichBrokerId": "0", "nextBeginOffset": strconv.FormatInt(next, 10),
		"minOffset": strconv.FormatInt(q.base, 10), "maxOffset": strconv.FormatInt(high, 10),
	}}
}

// pullBytes is how much a pull gives at most, beyond one message.
const pullBytes = 256 << 10

// from encodes messages from an offset on, below high.
func (q *queue) from(offset, high int64, most int) (body []byte, next int64) {
	next = offset
	for n := 0; next < high && n < most; next++ {
		m := &q.messages[next-q.base]
		if m.QueueOffset < 0 {
			continue // removed, or within a batch that is kept as one
		}
		was := len(body)
		if body = remoting.AppendMessage(body, m); n > 0 && len(body) > pullBytes {
			return body[:was], next
		}
		n++
	}
	for next < high && q.messages[next-q.base].QueueOffset < 0 {
		next++
	}
	return body, next
}
