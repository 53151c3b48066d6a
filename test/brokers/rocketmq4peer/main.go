// Command rocketmq4peer writes messages to RocketMQ with Apache's own client for
// Go, as programs without Ackmesh do: plain ones with keys, tags and
// properties, a batch, and a body that the client compresses.
//
//	rocketmq4peer NAMESERVER TOPIC
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: rocketmq4peer NAMESERVER TOPIC")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "rocketmq4peer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, topic string) (err error) {
	rlog.SetLogLevel("error")
	p, err := producer.NewDefaultProducer(producer.WithNameServer([]string{server}), producer.WithGroupName("peer"), producer.WithRetry(0))
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Shutdown()) }()
	plain := primitive.NewMessage(topic, []byte("go plain")).WithKeys([]string{"k1", "k2"}).WithTag("tag")
	plain.WithProperty("mine", "1")
	long := primitive.NewMessage(topic, []byte("go long "+strings.Repeat("again and ", 1000)))
	for _, m := range []*primitive.Message{plain, long} {
		if err := sent(p.SendSync(ctx, m)); err != nil {
			return err
		}
	}
	var batch []*primitive.Message
	for i := range 10 {
		m := primitive.NewMessage(topic, fmt.Appendf(nil, "go batch %d", i))
		m.WithProperty("number", fmt.Sprint(i))
		batch = append(batch, m)
	}
	return sent(p.SendSync(ctx, batch...))
}

func sent(r *primitive.SendResult, err error) error {
	if err == nil && r.Status != primitive.SendOK {
		err = fmt.Errorf("sent: %v", r)
	}
	return err
}
