package offsetstore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
)

// Compare orders keys by topic, kind, name of the subscriber and partition,
// bytewise: the order in which a Scan visits them.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		strings.Compare(k.Topic, o.Topic),
		cmp.Compare(k.Subscriber.Kind, o.Subscriber.Kind),
		strings.Compare(k.Subscriber.Name, o.Subscriber.Name),
		strings.Compare(k.Partition, o.Partition),
	)
}

// String writes k for logs and errors; it cannot be read back.
func (k Key) String() string {
	return fmt.Sprintf("topic %q, %s %q, partition %q",
		k.Topic, k.Subscriber.Kind, k.Subscriber.Name, k.Partition)
}

// AppendKey appends the encoding of k to dst: each part behind its length, so
// that no two keys share one and every byte is legal in a name. Keys of one
// topic share the prefix that AppendTopic writes.
func AppendKey(dst []byte, k Key) []byte {
	dst = AppendTopic(dst, k.Topic)
	dst = append(dst, byte(k.Subscriber.Kind))
	dst = appendString(dst, k.Subscriber.Name)
	return appendString(dst, k.Partition)
}

// AppendTopic appends the prefix of all keys of a topic to dst.
func AppendTopic(dst []byte, topic string) []byte { return appendString(dst, topic) }

// DecodeKey reads what AppendKey wrote. Any other bytes give an error that
// wraps ErrCorrupt; trailing bytes are an error.
func DecodeKey(b []byte) (Key, error) {
	d := decoder{b: b}
	k := Key{Topic: d.string()}
	k.Subscriber.Kind = Kind(d.byte())
	k.Subscriber.Name = d.string()
	k.Partition = d.string()
	if err := d.end("key"); err != nil {
		return Key{}, err
	}
	return k, nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
