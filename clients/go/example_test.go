package ackmesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
)

func Example() {
	c, err := ackmesh.New(ackmesh.Config{Addresses: []string{"127.0.0.1:7460"}, ClientID: "billing-1", Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			log.Print(err)
		}
	}()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = c.Subscribe(ctx, ackmesh.SubscribeConfig{
		Topics:      []string{"orders"},
		Mode:        ackmesh.LoadBalance,
		Share:       "billing",
		Start:       ackmesh.Earliest(),
		Concurrency: 8,
	}, func(ctx context.Context, d *ackmesh.Delivery) error {
		var order struct{ ID string }
		if err := json.Unmarshal(d.Data(), &order); err != nil {
			return ackmesh.DeadLetter(err) // no retry makes it readable
		}
		eventType, _ := d.Attr(ackmesh.AttrType)
		log.Printf("%s %s, attempt %d", eventType, order.ID, d.Attempt())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}

func ExampleClient_Publish() {
	c, err := ackmesh.New(ackmesh.Config{Addresses: []string{"127.0.0.1:7460"}})
	if err != nil {
		log.Fatal(err)
	}
	event := ackmesh.NewEvent("order.placed", []byte(`{"ID":"4711"}`)).
		Set(ackmesh.AttrDataContentType, "application/json").
		SetPartitionKey("customer-12")
	results, err := c.Publish(context.Background(), "orders", event)
	switch {
	case status.Code(err) == codes.InvalidArgument:
		log.Fatal("the event is wrong: ", err)
	case err != nil:
		log.Fatal("not stored, or unknown: ", err)
	}
	fmt.Println(results[0].Partition, results[0].Offset)
}

func ExampleClient_PublishAsync() {
	c, err := ackmesh.New(ackmesh.Config{Addresses: []string{"127.0.0.1:7460"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for i := range 1_000_000 {
		event := ackmesh.NewEvent("reading", fmt.Append(nil, i))
		err := c.PublishAsync(ctx, "readings", event, func(r ackmesh.Result) {
			if r.Err != nil {
				log.Print(r.ID, ": ", r.Err)
			}
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := c.Flush(ctx); err != nil {
		log.Fatal(err)
	}
}

// A handler that waits for a service to come back, and gives up on what the service
// calls wrong.
func ExampleRetryAfter() {
	errDown, errWrong := errors.New("service is down"), errors.New("service says no")
	call := func([]byte) error { return errDown }
	handler := func(_ context.Context, d *ackmesh.Delivery) error {
		err := call(d.Data())
		switch {
		case errors.Is(err, errDown):
			return ackmesh.RetryAfter(time.Minute, err)
		case errors.Is(err, errWrong):
			return ackmesh.DeadLetter(err)
		}
		return err
	}
	_ = handler
}

// Pull batches, write each batch to a database in one transaction, ack it, and know
// at the end that every ack is on disk.
func ExampleClient_OpenStream() {
	c, err := ackmesh.New(ackmesh.Config{Addresses: []string{"127.0.0.1:7460"}, ClientID: "archive-1"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s, err := c.OpenStream(ctx, ackmesh.SubscribeConfig{Topics: []string{"orders"}, Mode: ackmesh.Broadcast, MaxInFlight: 4096})
	if err != nil {
		log.Fatal(err)
	}
	for range 100 {
		batch, err := s.Recv(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, d := range batch.All() {
			fmt.Println(d.Partition(), d.Offset(), len(d.Data()))
		}
		batch.Ack()
		batch.Release()
	}
	if err := s.Confirm(ctx); err != nil {
		log.Print("some records come again: ", err)
	}
	if err := s.Close(ctx); err != nil {
		log.Print(err)
	}
}
