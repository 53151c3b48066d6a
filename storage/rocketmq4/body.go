package rocketmq4

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// pack appends messages to a batch as frames, up to the records and bytes that
// are wanted in all, one at least, and tells how many it took.
func (l *Log) pack(r *reading, msgs []remoting.Message) (n int, err error) {
	b := r.batch
	b.Buf = slices.Grow(b.Buf, packSize(msgs, r.req.MaxBytes-r.size))
	b.Records = slices.Grow(b.Records, max(min(len(msgs), r.req.MaxRecords-len(b.Records)), 0))
	for n < len(msgs) && len(b.Records) < r.req.MaxRecords {
		at := len(b.Buf)
		var raw *frame.Raw
		if b.Buf, raw, err = appendFrame(b.Buf, &msgs[n]); err != nil {
			return 0, err
		}
		end := len(b.Buf)
		if len(b.Records) > 0 && r.size+end-at > r.req.MaxBytes {
			b.Buf = b.Buf[:at]
			break
		}
		r.size += end - at
		if raw != nil {
			l.opts.Observe.Foreign(raw.Form.String(), raw.LeftOut, raw.DataLeftOut)
		}
		b.Records = append(b.Records, record(&msgs[n], b.Buf[at:end:end]))
		n++
	}
	return n, nil
}

// record is a message as a record with its frame.
func record(m *remoting.Message, frame []byte) storage.Record {
	return storage.Record{Offset: m.QueueOffset, Time: m.StoreTime, Frame: frame}
}

// packSize is how many bytes the messages take where they are frames.
func packSize(msgs []remoting.Message, maxBytes int) (size int) {
	for i := range msgs {
		if size += len(msgs[i].Body); size > maxBytes && i > 0 {
			break
		}
	}
	return size
}

// rebase makes the frames parts of Buf again, which may have moved.
func rebase(batch *storage.Batch) {
	at := 0
	for i := range batch.Records {
		end := at + len(batch.Records[i].Frame)
		batch.Records[i].Frame = batch.Buf[at:end:end]
		at = end
	}
}

// appendFrame appends a message as a frame, whatever form it has; raw says what
// became of one that was no frame.
func appendFrame(dst []byte, m *remoting.Message) (out []byte, raw *frame.Raw, err error) {
	if _, err := frame.Parse(m.Body); err == nil {
		return append(dst, m.Body...), nil, nil
	}
	headers, key := headers(m)
	body := m.Body
	if len(body) == 1 && body[0] == 0 && isBinaryEvent(headers) {
		body = nil // RocketMQ takes no empty body: this is how its binding writes one
	}
	made := frame.FromRaw(body, headers, key)
	out, err = frame.Append(dst, &made.Frame)
	if err != nil { // FromRaw promises that there is none
		return dst, nil, fmt.Errorf("rocketmq4: message %d as a frame: %w", m.QueueOffset, err)
	}
	return out, &made, nil
}

// Names of the CloudEvents bindings: of RocketMQ, and as frame takes them.
const (
	propEvent       = "CE_"
	propContentType = "CE_contenttype"
	propDataType    = "CE_datacontenttype"
	headerEvent     = "ce_"
	headerVersion   = "ce_specversion"
	headerType      = "content-type"
)

// transport are properties that clients and brokers set for themselves.
var transport = map[string]bool{
	"WAIT": true, "CLUSTER": true, "MIN_OFFSET": true, "MAX_OFFSET": true, "TRACE_ON": true, "MSG_REGION": true, "INSTANCE_ID": true,
	"PGROUP": true, "TRAN_MSG": true, "REAL_TOPIC": true, "REAL_QID": true, "DELAY": true, "CORRELATION_ID": true,
	"INNER_NUM": true, "INNER_BASE": true, "__INNER_BATCH": true, "INNER_MULTI_DISPATCH": true, "INNER_MULTI_QUEUE_OFFSET": true,
	remoting.PropShardingKey: true,
}

// headers are the properties of a message as attributes, and its key: what
// places it, else its keys.
func headers(m *remoting.Message) (list []frame.Header, key []byte) {
	keys := ""
	for name, value := range m.AllProperties() {
		switch name {
		case remoting.PropShardingKey:
			key = []byte(value)
		case remoting.PropKeys:
			keys = value
		}
		if transport[name] {
			continue
		}
		list = append(list, frame.Header{Name: headerName(name), Value: []byte(value)})
	}
	if key == nil && keys != "" {
		key = []byte(keys)
	}
	return list, key
}

// headerName is a property's name as frame takes it.
func headerName(name string) string {
	switch {
	case name == propContentType, name == propDataType:
		return headerType
	case strings.HasPrefix(name, propEvent):
		return headerEvent + name[len(propEvent):]
	}
	return name
}

func isBinaryEvent(list []frame.Header) bool {
	return slices.ContainsFunc(list, func(h frame.Header) bool { return h.Name == headerVersion })
}

// properties is what a message that is written gets: the key as RocketMQ's own
// clients name it, where it fits.
func properties(key string) string {
	if key == "" || strings.ContainsAny(key, "\x01\x02") {
		return ""
	}
	return remoting.AppendProperty("", remoting.PropShardingKey, key)
}
