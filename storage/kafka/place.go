package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

// place is a partition, and where it is to be found.
type place struct {
	topic     string
	topicID   string
	uuid      sarama.Uuid // topicID as it is
	name      string      // of the partition
	number    int32
	leader    string // address; empty: none now
	epoch     int32  // of the leader; -1: unknown
	askedAt   time.Time
	partition *partition
}

// String names the place in errors.
func (p place) String() string { return fmt.Sprintf("topic %q partition %q", p.topic, p.name) }

// place finds a partition, with what is known already where that is younger
// than since. A partition that is not known is asked for.
func (l *Log) place(ctx context.Context, topic, name string, since time.Time) (place, error) {
	t, err := l.meta.topic(ctx, topic, since)
	if err != nil {
		return place{}, err
	}
	n, ok := t.partition(name)
	if _, isNumber := strconv.Atoi(name); !ok && isNumber == nil {
		if t, err = l.meta.ask(ctx, topic); err != nil {
			return place{}, err
		}
		n, ok = t.partition(name)
	}
	if !ok {
		return place{}, fmt.Errorf("kafka: topic %q has no partition %q, it has %d: %w", topic, name, len(t.parts), storage.ErrPartitionNotFound)
	}
	part := t.parts[n]
	return place{
		topic: topic, topicID: t.id, uuid: t.uuid, name: name, number: n, leader: part.leader, epoch: part.epoch, askedAt: t.at,
		partition: l.states.of(topic, t.id, n),
	}, nil
}

// electionTime is how long a partition may be between two leaders, or new,
// before calls that do not wait fail.
const electionTime = 2 * time.Second

// firstPause is the pause before a leader that has not moved is asked again.
const firstPause = 20 * time.Millisecond

// atLeader calls f with a connection to the partition's leader, and finds the
// leader anew where it has moved or is not reached, as long as patience lasts;
// while brokers answer that they do not lead, for electionTime at least. What
// f returns as sarama.KError is explained.
func (l *Log) atLeader(ctx context.Context, at *place, patience time.Time, f func(ctx context.Context, addr string) error) error {
	election := time.Now().Add(electionTime)
	for pause := firstPause; ; pause = min(2*pause, time.Second) {
		err := l.onceAtLeader(ctx, at, f)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrTopicNotFound) {
			return err
		}
		again, findErr := l.place(ctx, at.topic, at.name, time.Now())
		switch {
		case findErr != nil && !errors.Is(findErr, storage.ErrUnavailable):
			return findErr
		case findErr == nil && again.topicID != at.topicID:
			return changed(at, again.topicID)
		case findErr == nil:
			moved := again.leader != at.leader || again.epoch != at.epoch
			*at = again
			if moved {
				pause = firstPause / 2
				continue
			}
		}
		var code sarama.KError
		if errors.As(err, &code) && election.After(patience) {
			patience = election
		}
		if time.Until(patience) < pause {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (l *Log) onceAtLeader(ctx context.Context, at *place, f func(ctx context.Context, addr string) error) error {
	if at.leader == "" {
		return fmt.Errorf("kafka: %v has no leader now: %w", at, storage.ErrUnavailable)
	}
	err := f(ctx, at.leader)
	var code sarama.KError
	if errors.As(err, &code) && !errors.Is(err, storage.ErrUnavailable) && code != sarama.ErrOffsetOutOfRange {
		return explain(at.String(), code)
	}
	return err
}

// changed says that a topic was made again.
func changed(at *place, id string) error {
	return fmt.Errorf("kafka: %w: topic %q has the identity %q, not %q", storage.ErrTopicChanged, at.topic, id, at.topicID)
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
