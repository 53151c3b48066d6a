package rpc

import (
	"context"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/storage"
)

// names is a log that remembers by what names events are told apart.
type names struct {
	storage.Backend
	keys []string
}

func (l *names) Append(_ context.Context, _ string, events []storage.Event, done storage.AppendDone) error {
	for _, e := range events {
		l.keys = append(l.keys, string([]byte(e.DedupKey)))
	}
	done(make([]storage.Appended, len(events)), nil)
	return nil
}

// TestOnlyRepeatsAreAlike: only events whose publisher gave source and id are
// taken for repeats, and only of one another.
func TestOnlyRepeatsAreAlike(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b map[string]string
		same bool
	}{
		{"a repeat", map[string]string{"id": "1", "source": "/a"}, map[string]string{"id": "1", "source": "/a", "type": "t"}, true},
		{"another id", map[string]string{"id": "1", "source": "/a"}, map[string]string{"id": "2", "source": "/a"}, false},
		{"another source", map[string]string{"id": "1", "source": "/a"}, map[string]string{"id": "1", "source": "/b"}, false},
		{"parts that look alike together", map[string]string{"id": "b\x00c", "source": "a"}, map[string]string{"id": "c", "source": "a\x00b"}, false},
		{"no id", map[string]string{"source": "/a"}, map[string]string{"source": "/a"}, false},
		{"no source: of two publishers", map[string]string{"id": "1"}, map[string]string{"id": "1"}, false},
		{"an empty source", map[string]string{"id": "1", "source": ""}, map[string]string{"id": "1", "source": ""}, false},
	} {
		log := &names{}
		p := NewPublisher(log, "/ackmesh/one", [12]byte{})
		for _, attrs := range []map[string]string{c.a, c.b} {
			msg, err := proto.Marshal(&pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{{Attributes: attrs}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.publish(t.Context(), &rawIn{mem.SliceBuffer(msg)}, nil); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		same := len(log.keys) == 2 && log.keys[0] != "" && log.keys[0] == log.keys[1]
		if len(log.keys) != 2 || same != c.same {
			t.Errorf("%s: told apart by %q", c.name, log.keys)
		}
	}
}
