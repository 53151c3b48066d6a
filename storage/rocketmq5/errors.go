package rocketmq5

import (
	"context"
	"errors"
	"fmt"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// explain says what an error of a proxy or broker about something means.
func explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case session.CodeOf(err) == v2.Code_UNAUTHORIZED, session.CodeOf(err) == v2.Code_FORBIDDEN:
		return fmt.Errorf("rocketmq5: %s: refused: check rocketmq5.access-key and its rights on the topic and on groups named EM-…: %w", what, err)
	case remoting.IsCode(err, remoting.CodeNoPermission):
		return fmt.Errorf("rocketmq5: %s: refused: check the rights of rocketmq5.access-key at the brokers: %w", what, err)
	}
	if kind := meaning(err); kind != nil {
		return fmt.Errorf("rocketmq5: %s: %w: %w", what, kind, err)
	}
	return fmt.Errorf("rocketmq5: %s: %w", what, err)
}

// meaning sorts errors; nil: none of the contract's.
func meaning(err error) error {
	for _, kind := range []error{
		storage.ErrTopicNotFound, storage.ErrPartitionNotFound, storage.ErrUnsupported, storage.ErrInvalid, storage.ErrUnavailable,
		storage.ErrGroupNotFound, storage.ErrGroupKind, storage.ErrClosed,
	} {
		if errors.Is(err, kind) {
			return nil // it says so already
		}
	}
	var answer *session.Error
	var reply *remoting.Error
	switch {
	case errors.Is(err, session.ErrClosed), errors.Is(err, remoting.ErrClosed):
		return storage.ErrClosed
	case errors.Is(err, remoting.ErrUnreachable), errors.Is(err, remoting.ErrMalformed):
		return storage.ErrUnavailable
	case errors.As(err, &answer):
		return codeMeaning(answer)
	case errors.As(err, &reply):
		return replyMeaning(reply.Code)
	}
	return nil
}

func codeMeaning(e *session.Error) error {
	if e.Transient() {
		return storage.ErrUnavailable
	}
	switch e.Code {
	case v2.Code_TOPIC_NOT_FOUND, v2.Code_NOT_FOUND:
		return storage.ErrTopicNotFound
	case v2.Code_CONSUMER_GROUP_NOT_FOUND:
		return storage.ErrGroupNotFound
	case v2.Code_MESSAGE_BODY_TOO_LARGE, v2.Code_PAYLOAD_TOO_LARGE, v2.Code_MESSAGE_PROPERTIES_TOO_LARGE:
		return storage.ErrTooLarge
	case v2.Code_NOT_IMPLEMENTED, v2.Code_UNSUPPORTED, v2.Code_VERSION_UNSUPPORTED:
		return storage.ErrUnsupported
	}
	if e.Code >= v2.Code_BAD_REQUEST && e.Code < v2.Code_UNAUTHORIZED {
		return storage.ErrInvalid
	}
	return nil
}

func replyMeaning(code int) error {
	switch code {
	case remoting.CodeTopicNotExist:
		return storage.ErrTopicNotFound
	case remoting.CodeGroupNotExist:
		return storage.ErrGroupNotFound
	case remoting.CodeNotSupported:
		return storage.ErrUnsupported
	case remoting.CodeSystemError, remoting.CodeSystemBusy, remoting.CodeServiceUnavailable:
		return storage.ErrUnavailable
	}
	return nil
}

// checkTopic tells whether RocketMQ takes a name.
func checkTopic(name string) error {
	if err := storage.CheckName("topic", name); err != nil {
		return fmt.Errorf("rocketmq5: %w", err)
	}
	if err := remoting.CheckTopic(name); err != nil {
		return fmt.Errorf("rocketmq5: %w: %w", err, storage.ErrInvalid)
	}
	return nil
}

// errNoPort says what has to be set for what the proxies cannot do.
func errNoPort(what string) error {
	return fmt.Errorf("rocketmq5: %s is not possible through the proxies' gRPC alone: set rocketmq5.nameservers to the name servers (or to the proxies' remoting ports): %w", what, storage.ErrUnsupported)
}
