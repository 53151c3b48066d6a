package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

// explain says what an error of a broker, or of sarama, about something means.
func explain(what string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, sarama.ErrTopicAuthorizationFailed):
		return fmt.Errorf("kafka: %s: refused: grant this user READ, WRITE and DESCRIBE on the topic, CREATE and DELETE to make and remove it: %w", what, err)
	case errors.Is(err, sarama.ErrClusterAuthorizationFailed):
		return fmt.Errorf("kafka: %s: refused: grant this user CREATE on the cluster for new topics, IDEMPOTENT_WRITE before Kafka 2.8: %w", what, err)
	}
	if kind := meaning(err); kind != nil {
		return fmt.Errorf("kafka: %s: %w: %w", what, kind, err)
	}
	return fmt.Errorf("kafka: %s: %w", what, err)
}

// meaning sorts errors; nil: none of the contract's.
func meaning(err error) error {
	var code sarama.KError
	var config sarama.ConfigurationError
	switch {
	case errors.As(err, &code):
		return codeMeaning(code)
	case errors.As(err, &config):
		return storage.ErrTooLarge // the one setting that sarama holds messages to
	case errors.Is(err, sarama.ErrShuttingDown), errors.Is(err, sarama.ErrClosedClient):
		return storage.ErrClosed
	}
	return storage.ErrUnavailable // what remains is of connections
}

func codeMeaning(code sarama.KError) error {
	switch code {
	case sarama.ErrUnknownTopicOrPartition:
		return storage.ErrTopicNotFound
	case sarama.ErrTopicAlreadyExists:
		return storage.ErrTopicExists
	case sarama.ErrInvalidTopic, sarama.ErrInvalidPartitions, sarama.ErrInvalidReplicationFactor, sarama.ErrInvalidConfig,
		sarama.ErrPolicyViolation, sarama.ErrTopicDeletionDisabled, sarama.ErrInvalidTimestamp, sarama.ErrInvalidRecord:
		return storage.ErrInvalid
	case sarama.ErrMessageSizeTooLarge, sarama.ErrMessageSetSizeTooLarge:
		return storage.ErrTooLarge
	case sarama.ErrInvalidMessage:
		return storage.ErrCorrupt
	case sarama.ErrUnsupportedVersion, sarama.ErrUnsupportedForMessageFormat, sarama.ErrUnsupportedCompressionType, sarama.ErrSecurityDisabled:
		return nil
	}
	return storage.ErrUnavailable
}

// checkTopic tells whether Kafka takes a name: 1 to 249 letters, digits, dots,
// underscores and dashes, and neither . nor .. alone.
func checkTopic(name string) error {
	if err := storage.CheckName("topic", name); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	if len(name) > 249 || name == "." || name == ".." {
		return fmt.Errorf("kafka: topic %q: Kafka takes names of 1 to 249 bytes, not . and ..: %w", name, storage.ErrInvalid)
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("kafka: topic %q: Kafka takes letters, digits, dots, underscores and dashes: %w", name, storage.ErrInvalid)
		}
	}
	return nil
}

// explainRange says that an offset was refused that was in range a moment ago.
func explainRange(at *place, err error) error {
	if errors.Is(err, sarama.ErrOffsetOutOfRange) {
		return fmt.Errorf("kafka: %v: its bounds have just changed: %w: %w", at, storage.ErrUnavailable, err)
	}
	return err
}
