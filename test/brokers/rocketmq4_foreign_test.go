//go:build brokers

package brokers_test

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
)

// foreign: what Apache's own clients for Go and Java write, compressed by every
// method and in batches, arrives as they wrote it; and a key of ours goes to
// the queue that they choose for it.
func (r *rocketMQ4) foreign(t *testing.T) {
	r.makeTopic(t, "foreign", 4)
	r.run(t, exec.Command("go", "run", ".", r.nameServers()[0], "foreign"), "rocketmq4peer")
	want := map[string]int{"go plain": 1, "go long " + strings.Repeat("again and ", 1000): 1}
	for i := range 10 {
		want[fmt.Sprint("go batch ", i)] = 1
	}
	place := ""
	for _, how := range []string{"ZLIB", "LZ4", "ZSTD"} {
		place = r.run(t, exec.Command("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-Drocketmq.message.compressType="+how,
			"-Drocketmq.client.logRoot="+t.TempDir(), "-cp", r.install+"/lib/*", "RocketMQ4Peer.java", r.nameServers()[0], "foreign"), ".")
		want["java "+how+" "+strings.Repeat("again and ", 1000)] = 1
		want["java placed"]++
		for i := range 5 {
			want[fmt.Sprint("java batch ", i)]++
		}
	}
	l := r.open(t, rocketmq4.Options{})
	got := map[string]int{}
	for _, f := range r.readAll(t, l, "foreign", sum(want)) {
		got[string(f.Data)]++
		checkForeign(t, f)
	}
	if !maps.Equal(got, want) {
		t.Errorf("read are %d events of %d kinds, want %d of %d", sum(got), len(got), sum(want), len(want))
	}
	results, err := storage.AppendWait(t.Context(), l, "foreign", []storage.Event{{Key: "order-17", Frame: event(1)}})
	if err != nil || !strings.Contains(place, "placed in "+results[0].Partition+"\n") {
		t.Errorf("the key is placed at %+v, %v; Java's client chooses %s", results, err, place)
	}
}

// checkForeign looks at attributes of events that are known.
func checkForeign(t *testing.T, f frame.Frame) {
	t.Helper()
	attr := func(name, want string) {
		t.Helper()
		if v, ok := f.Get(name); !ok || v != want {
			t.Errorf("of %.30q the attribute %s is %q, want %q", f.Data, name, v, want)
		}
	}
	data := string(f.Data)
	switch {
	case data == "go plain":
		attr("KEYS", "k1 k2")
		attr("TAGS", "tag")
		attr("mine", "1")
		attr("partitionkey", "k1 k2")
	case strings.HasPrefix(data, "go batch "):
		attr("number", strings.TrimPrefix(data, "go batch "))
	case strings.HasPrefix(data, "java LZ4 "):
		attr("mine", "LZ4")
		attr("partitionkey", "key")
	}
}

func sum(counts map[string]int) (n int) {
	for c := range maps.Values(counts) {
		n += c
	}
	return n
}

// run runs a program in a folder and returns what it prints.
func (r *rocketMQ4) run(t *testing.T, cmd *exec.Cmd, dir string) string {
	t.Helper()
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, said.String())
	}
	return string(out)
}

// readAll reads a topic from its beginning until there are so many events, and
// a moment longer.
func (r *rocketMQ4) readAll(t *testing.T, l *rocketmq4.Log, topic string, n int) (list []frame.Frame) {
	t.Helper()
	info, err := l.Topic(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	b := new(storage.Batch)
	until := time.Now().Add(patience)
	for quiet := 0; quiet < 2; {
		was := len(list)
		for _, part := range info.Partitions {
			req := storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, Wait: 100 * time.Millisecond}
			if err := l.Poll(t.Context(), req, b); err != nil {
				t.Fatal(err)
			}
			for _, rec := range b.Records {
				f, err := frame.Decode(slices.Clone(rec.Frame))
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, f)
			}
		}
		switch {
		case len(list) > was:
			quiet = 0
		case len(list) >= n || time.Now().After(until):
			quiet++
		}
	}
	return list
}

// noTrace: what mqadmin shows of groups and topics, and what the broker keeps of
// groups and their offsets, is what it was before anything of ours ran.
func (r *rocketMQ4) noTrace(t *testing.T, before string) {
	if after := r.traces(t); after != before {
		t.Errorf("the broker had\n%s\nbefore and has\n%s\nnow", before, after)
	}
}

// traces is what groups leave at a broker.
func (r *rocketMQ4) traces(t *testing.T) string {
	t.Helper()
	var topics []string
	for _, topic := range strings.Fields(r.mqadmin(t, "topicList")) {
		if strings.HasPrefix(topic, "%") {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	groups := regexp.MustCompile(`"groupName":"[^"]*"`).FindAllString(r.call(t, 201, `{}`), -1) // all groups
	slices.Sort(groups)
	offsets := r.call(t, 43, `{}`) // all offsets of groups
	return fmt.Sprintf("consumerProgress: %s\ntopics of groups: %q\ngroups: %q\noffsets: %s",
		r.mqadmin(t, "consumerProgress"), topics, groups, offsets[strings.Index(offsets, `"offsetTable"`):])
}
