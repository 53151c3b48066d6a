package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keyFetch is the number of the fetch request.
const keyFetch = 1

// fetch makes one fetch. The connection is sarama's, which has opened it, logged
// in, and has nothing under way on it; but the answer, megabytes of it, is read
// to where it stays.
func (k *link) fetch(q *query) (*result, error) {
	conn, err := k.ready()
	if err != nil {
		return nil, err
	}
	version := min(k.fetchMax, versionByID)
	if q.at.topicID == "" {
		version = min(version, versionByID-1)
	}
	if version < minFetch {
		return nil, fmt.Errorf("fetch requests of version %d: %w", k.fetchMax, sarama.ErrUnsupportedVersion)
	}
	wait := time.Duration(q.waitMS) * time.Millisecond
	if err := conn.SetDeadline(time.Now().Add(k.opts.RequestTimeout + wait)); err != nil {
		return nil, err
	}
	k.correlation++
	k.request = kmsg.NewRequestFormatter(kmsg.FormatterClientID(k.opts.ClientID)).
		AppendRequest(k.request[:0], q.request(version), k.correlation)
	if _, err := conn.Write(k.request); err != nil {
		return nil, err
	}
	n, err := k.head(conn, version)
	if err != nil {
		return nil, err
	}
	res, err := readResult(conn, n, version, q)
	if err != nil {
		return nil, err
	}
	if res.damage != nil {
		k.broken = true // the rest of the answer lies in it
	}
	return res, conn.SetDeadline(time.Time{})
}

// holdBack waits while the broker answers nothing on the connection, so that
// nobody else waits for that. One that is silent for long is given up.
func (k *link) holdBack(ctx context.Context, mute time.Duration) error {
	pause := min(mute, k.opts.RequestTimeout/2)
	k.broken = pause < mute
	return sleep(ctx, pause)
}

// loginEvery is how often sarama is given an occasion to log in anew, which it
// does with one of its own requests where the login is about to end.
const loginEvery = 10 * time.Second

// ready waits until the connection stands, and learns which fetch requests the
// broker takes.
func (k *link) ready() (net.Conn, error) {
	if _, err := k.broker.Connected(); err != nil {
		return nil, err
	}
	if k.fetchMax == 0 || k.opts.SASL.Mechanism != MechanismNone && time.Since(k.asked) > loginEvery {
		k.asked = time.Now()
		res, err := k.broker.ApiVersions(new(sarama.ApiVersionsRequest))
		if err != nil {
			return nil, err
		}
		for _, key := range res.ApiKeys {
			if key.ApiKey == keyFetch {
				k.fetchMax = key.MaxVersion
			}
		}
	}
	conn := k.dialer.conn()
	if conn == nil {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// head reads what comes before an answer's body, and returns the length of that.
func (k *link) head(conn net.Conn, version int16) (int, error) {
	b := make([]byte, 8, 9)
	if version >= versionTagged {
		b = b[:9]
	}
	if _, err := io.ReadFull(conn, b); err != nil {
		return 0, err
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	switch {
	case size < len(b)-4 || size > int(sarama.MaxResponseSize):
		return 0, errGarbled("an answer has the length %d", size)
	case int32(binary.BigEndian.Uint32(b[4:])) != k.correlation:
		return 0, errGarbled("the answer is to request %d, not %d", binary.BigEndian.Uint32(b[4:]), k.correlation)
	case version >= versionTagged && b[8] != 0:
		return 0, errGarbled("the answer begins with %d tagged fields", b[8])
	}
	return size - (len(b) - 4), nil
}

// request makes the request in one of its forms.
func (q *query) request(version int16) *kmsg.FetchRequest {
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = q.at.number, q.start, int32(q.bytes)
	part.CurrentLeaderEpoch = q.at.epoch
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = q.at.topic, q.at.uuid
	topic.Partitions = []kmsg.FetchRequestTopicPartition{part}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = q.waitMS, 1, int32(q.bytes), -1
	if q.committed {
		req.IsolationLevel = 1
	}
	req.Topics = []kmsg.FetchRequestTopic{topic}
	req.SetVersion(version)
	return req
}
