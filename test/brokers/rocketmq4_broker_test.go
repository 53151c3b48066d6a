//go:build brokers

package brokers_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rocketMQ4 is a real name server with one broker that ends with the test.
type rocketMQ4 struct {
	install, data       string
	namesPort, brokerAt int
	env                 []string
}

// fileSize is how large the files of a broker's log are: small, so that there
// are many. A file is what retention removes.
const fileSize = 8 << 20

// startRocketMQ4 installs RocketMQ 4 where it is not, into .cache of the
// repository, and starts a name server and a broker. What is missing for that
// fails the test.
func startRocketMQ4(t testing.TB) *rocketMQ4 {
	t.Helper()
	cache, err := filepath.Abs("../../.cache/rocketmq4")
	if err != nil {
		t.Fatal(err)
	}
	r := &rocketMQ4{install: cache, data: t.TempDir()}
	r.namesPort = freePorts(t, 5)
	r.brokerAt = r.namesPort + 3 // it needs the ports 2 below and 1 above
	r.env = append(os.Environ(), "RMQ_NS_PORT="+strconv.Itoa(r.namesPort), "RMQ_BROKER_PORT="+strconv.Itoa(r.brokerAt),
		fmt.Sprintf("RMQ_BROKER_EXTRA=mappedFileSizeCommitLog=%d\nautoCreateTopicEnable=true\ncleanResourceInterval=1000\nfileReservedTime=72", fileSize))
	r.script(t, "install", cache)
	r.start(t)
	t.Cleanup(func() { r.script(t, "stop", r.data) })
	return r
}

// script runs rocketmq4.sh and returns what it prints. Where it fails the test
// fails with what it said, the end of the log included.
func (r *rocketMQ4) script(t testing.TB, args ...string) string {
	t.Helper()
	out, err := r.try(args...)
	if err != nil {
		t.Fatalf("rocketmq4.sh %q: %v", args, err)
	}
	return out
}

func (r *rocketMQ4) try(args ...string) (string, error) {
	cmd := exec.Command("bash", append([]string{"rocketmq4.sh"}, args...)...)
	cmd.Env = r.env
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w\n%s%s", err, out.Bytes(), said.Bytes())
	}
	return out.String(), nil
}

func (r *rocketMQ4) start(t testing.TB) {
	t.Helper()
	r.script(t, "start", r.install, r.data)
}

// kill ends the broker at once; its data, and the name server, stay.
func (r *rocketMQ4) kill(t testing.TB) {
	t.Helper()
	r.script(t, "kill9", r.data, "broker")
}

func (r *rocketMQ4) nameServers() []string { return []string{fmt.Sprintf("127.0.0.1:%d", r.namesPort)} }
func (r *rocketMQ4) brokerAddr() string    { return fmt.Sprintf("127.0.0.1:%d", r.brokerAt) }

// call makes one request of the broker, without any client of ours.
func (r *rocketMQ4) call(t testing.TB, code int, fields string) string {
	t.Helper()
	return r.script(t, "call", strconv.Itoa(r.brokerAt), strconv.Itoa(code), fields)
}

// mqadmin runs Apache's own command.
func (r *rocketMQ4) mqadmin(t testing.TB, args ...string) string {
	t.Helper()
	return r.script(t, append([]string{"mqadmin", r.install}, args...)...)
}

// makeTopic makes a topic, or changes its number of queues, and waits until the
// name server tells of it.
func (r *rocketMQ4) makeTopic(t testing.TB, topic string, queues int) {
	t.Helper()
	r.call(t, 17, fmt.Sprintf(`{"topic":%q,"defaultTopic":"TBW102","readQueueNums":"%d","writeQueueNums":"%d","perm":"6","topicFilterType":"SINGLE_TAG","topicSysFlag":"0","order":"false"}`, topic, queues, queues))
	eventually(t, func() error {
		out, err := r.try("call", strconv.Itoa(r.namesPort), "105", fmt.Sprintf(`{"topic":%q}`, topic))
		if err == nil && !strings.Contains(out, fmt.Sprintf(`"readQueueNums":%d`, queues)) {
			err = fmt.Errorf("the route is %s", out)
		}
		return err
	})
}

// removeTopic deletes a topic, as mqadmin deleteTopic does.
func (r *rocketMQ4) removeTopic(t testing.TB, topic string) {
	t.Helper()
	r.call(t, 215, fmt.Sprintf(`{"topic":%q}`, topic))
	r.script(t, "call", strconv.Itoa(r.namesPort), "216", fmt.Sprintf(`{"topic":%q}`, topic))
}
