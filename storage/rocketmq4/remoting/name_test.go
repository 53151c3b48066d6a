package remoting_test

import (
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

func TestCheckTopic(t *testing.T) {
	for _, name := range []string{"t", "%RETRY%EM-0aZ9_|", strings.Repeat("x", 127)} {
		if err := remoting.CheckTopic(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 128), "a.b", "a b", "a/b", "a:b", "ä", "a\x00"} {
		if err := remoting.CheckTopic(name); err == nil || !strings.Contains(err.Error(), "RocketMQ takes") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
