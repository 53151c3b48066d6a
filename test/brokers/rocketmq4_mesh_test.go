//go:build brokers

package brokers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/test/brokers/mesh"
)

// TestRocketMQ4Mesh runs whole servers on RocketMQ 4.
func TestRocketMQ4Mesh(t *testing.T) {
	mesh.Run(t, rocketMQ4Mesh{startRocketMQ4(t)})
}

// rocketMQ4Mesh is a mesh.Broker. It works without our client, by plain
// requests and Apache's mqadmin.
type rocketMQ4Mesh struct{ *rocketMQ4 }

var _ mesh.Broker = rocketMQ4Mesh{}

func (r rocketMQ4Mesh) Flags() []string {
	return []string{"--storage", "rocketmq4", "--rocketmq4.nameservers", r.nameServers()[0]}
}

func (r rocketMQ4Mesh) Kill(t testing.TB)  { r.kill(t) }
func (r rocketMQ4Mesh) Start(t testing.TB) { r.start(t) }

func (r rocketMQ4Mesh) Traits() mesh.Traits { return mesh.Traits{} }

func (r rocketMQ4Mesh) CreateTopic(t testing.TB, topic string, partitions int) {
	t.Helper()
	r.makeTopic(t, topic, partitions)
}

func (r rocketMQ4Mesh) DeleteTopic(t testing.TB, topic string) {
	t.Helper()
	r.removeTopic(t, topic)
}

func (r rocketMQ4Mesh) AddPartitions(t testing.TB, topic string, partitions int) {
	t.Helper()
	r.makeTopic(t, topic, partitions)
}

// Expire makes all that the broker has older than it is kept. A broker keeps
// one log for all topics and removes whole files of it, so the log is filled
// up to its next file first.
func (r *rocketMQ4) Expire(t testing.TB, _ string) {
	t.Helper()
	end := r.fill(t, fileSize+fileSize/2)
	var old []string
	for _, f := range r.commitLog(t) {
		if start, err := strconv.ParseInt(filepath.Base(f), 10, 64); err == nil && start+fileSize <= end {
			old = append(old, f)
		}
	}
	past := time.Now().Add(-5 * 24 * time.Hour)
	for _, f := range old {
		if err := os.Chtimes(f, past, past); err != nil {
			t.Fatal(err)
		}
	}
	r.call(t, 329, `{}`) // remove what is too old now, as mqadmin deleteExpiredCommitLog does
	eventually(t, func() error {
		for _, f := range old {
			if _, err := os.Stat(f); err == nil {
				return fmt.Errorf("%s is still there", f)
			}
		}
		return nil
	})
}

// commitLog lists the files of the broker's log. Each is called after the
// place where it begins.
func (r *rocketMQ4) commitLog(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.data, "store", "commitlog", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files of the log: %q, %v", files, err)
	}
	return files
}

// fill writes so many bytes to a topic of its own, and tells where the last of
// them lie in the broker's log.
func (r *rocketMQ4) fill(t testing.TB, size int) (end int64) {
	t.Helper()
	r.makeTopic(t, "filler", 1)
	c := r.client(t)
	body := make([]byte, 1<<20)
	for ; size > 0; size -= len(body) {
		sent, err := c.Send(t.Context(), r.brokerAddr(), remoting.Queue{Topic: "filler"}, remoting.OutMessage{Body: body})
		if err != nil {
			t.Fatal(err)
		}
		// The identity ends with the place, in 16 hexadecimal digits.
		if end, err = strconv.ParseInt(sent.ID[len(sent.ID)-16:], 16, 64); err != nil {
			t.Fatal(err)
		}
	}
	return end
}

// client is a remoting client that ends with the test.
func (r *rocketMQ4) client(t testing.TB) *remoting.Client {
	t.Helper()
	c, err := remoting.New(remoting.Options{NameServers: r.nameServers()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Groups are those of mqadmin consumerProgress, and those that have topics of
// their own for retries and dead letters.
func (r rocketMQ4Mesh) Groups(t testing.TB) (groups []string) {
	t.Helper()
	for _, line := range strings.Split(r.mqadmin(t, "consumerProgress"), "\n") {
		if f := strings.Fields(line); len(f) > 1 && !strings.HasPrefix(f[0], "#") {
			groups = append(groups, f[0])
		}
	}
	for _, topic := range strings.Fields(r.mqadmin(t, "topicList")) {
		if strings.HasPrefix(topic, "%") {
			groups = append(groups, topic)
		}
	}
	return groups
}
