//go:build brokers

package brokers_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// kafkaBroker is a real broker of one node that ends with the test.
type kafkaBroker struct {
	install, data string
	port          int
	env           []string
}

// startKafka installs Kafka where it is not, into .cache of the repository, and
// starts a broker with these extra lines in its settings. What is missing for
// that fails the test.
func startKafka(t testing.TB, props string) *kafkaBroker {
	t.Helper()
	needJava(t)
	cache, err := filepath.Abs("../../.cache/kafka")
	if err != nil {
		t.Fatal(err)
	}
	k := &kafkaBroker{install: cache, data: t.TempDir(), port: freePorts(t, 2), env: append(os.Environ(), "KAFKA_EXTRA_PROPS="+props)}
	k.script(t, "install", cache)
	k.start(t)
	t.Cleanup(func() { k.script(t, "stop", k.data) })
	return k
}

// script runs kafka.sh. Where it fails the test fails with what it said, the
// end of the broker's log included.
func (k *kafkaBroker) script(t testing.TB, args ...string) {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"kafka.sh"}, args...)...)
	cmd.Env = k.env
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("kafka.sh %q: %v\n%s", args, err, said.Bytes())
	}
	t.Logf("%s", bytes.TrimSpace(said.Bytes()))
}

// tool runs a command of Kafka's own and returns what it prints.
func (k *kafkaBroker) tool(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"kafka.sh", "tool", k.install}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kafka.sh tool %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (k *kafkaBroker) start(t testing.TB) {
	t.Helper()
	k.script(t, "start", k.install, strconv.Itoa(k.port), k.data)
}

// kill ends the broker at once; its data stays.
func (k *kafkaBroker) kill(t testing.TB) {
	t.Helper()
	k.script(t, "kill9", k.data)
}

func (k *kafkaBroker) addrs() []string { return []string{fmt.Sprintf("127.0.0.1:%d", k.port)} }
