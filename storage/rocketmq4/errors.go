package rocketmq4

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// explain says what an error of the protocol means.
func explain(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, remoting.ErrClosed):
		return errClosed()
	case errors.Is(err, remoting.ErrMalformed):
		return fmt.Errorf("rocketmq4: %w: %w", storage.ErrCorrupt, err)
	case errors.Is(err, remoting.ErrUnreachable):
		return fmt.Errorf("rocketmq4: %w: %w", storage.ErrUnavailable, err)
	}
	var e *remoting.Error
	if errors.As(err, &e) {
		return explainCode(e)
	}
	return fmt.Errorf("rocketmq4: %w", err)
}

func explainCode(e *remoting.Error) error {
	switch e.Code {
	case remoting.CodeTopicNotExist:
		return fmt.Errorf("rocketmq4: %w: %w", storage.ErrTopicNotFound, e)
	case remoting.CodeMessageIllegal:
		return fmt.Errorf("rocketmq4: the broker finds it too large, raise its maxMessageSize: %w: %w", storage.ErrTooLarge, e)
	case remoting.CodeNoPermission:
		return fmt.Errorf("rocketmq4: refused, look at the topic's perm and at the user's rights: %w", e)
	case remoting.CodeFlushDiskTimeout, remoting.CodeFlushSlaveTimeout, remoting.CodeSlaveNotAvailable:
		return fmt.Errorf("rocketmq4: stored, but not as safely as the broker is set to; it may be there after all: %w: %w", storage.ErrUnavailable, e)
	}
	if strings.Contains(e.Remark, "AclException") {
		return fmt.Errorf("rocketmq4: refused, check rocketmq4.access-key and rocketmq4.secret-key, and the user's rights in the broker's plain_acl.yml: %w", e)
	}
	return fmt.Errorf("rocketmq4: %w: %w", storage.ErrUnavailable, e)
}

func errClosed() error { return fmt.Errorf("rocketmq4: %w", storage.ErrClosed) }

// checkTopic tells whether a topic may have a name: one that RocketMQ takes, and
// none of its own.
func checkTopic(name string) error {
	if err := storage.CheckName("topic", name); err != nil {
		return fmt.Errorf("rocketmq4: %w", err)
	}
	if err := remoting.CheckTopic(name); err != nil {
		return fmt.Errorf("rocketmq4: %w: %w", err, storage.ErrInvalid)
	}
	if isSystem(name) {
		return fmt.Errorf("rocketmq4: topic %q is one of RocketMQ's own: %w", name, storage.ErrInvalid)
	}
	return nil
}

// systemTopics are made by brokers for themselves.
var systemTopics = map[string]bool{
	"TBW102": true, "SCHEDULE_TOPIC_XXXX": true, "BenchmarkTest": true, "OFFSET_MOVED_EVENT": true, "SELF_TEST_TOPIC": true,
	"RMQ_SYS_TRANS_HALF_TOPIC": true, "RMQ_SYS_TRANS_OP_HALF_TOPIC": true, "RMQ_SYS_TRACE_TOPIC": true,
	"TRANS_CHECK_MAX_TIME_TOPIC": true, "DefaultHeartBeatSyncerTopic": true,
}

// isSystem tells topics of brokers, groups and RocketMQ's features.
func isSystem(name string) bool {
	for _, prefix := range []string{"%RETRY%", "%DLQ%", "%LMQ%", "%SYS%", "rmq_sys_", "rocketmq-broker-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return systemTopics[name] || strings.HasSuffix(name, "_REPLY_TOPIC")
}

// sleep waits, or returns ctx.Err().
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
