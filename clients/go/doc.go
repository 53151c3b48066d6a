// Package ackmesh is the Go client of Ackmesh: it publishes events to topics, and
// subscribes to them with progress that the mesh keeps.
//
//	c, err := ackmesh.New(ackmesh.Config{
//		Addresses: []string{"127.0.0.1:7460"},
//		ClientID:  "billing-1",
//	})
//
// One [Client] serves a whole process and may be used from any goroutine. It
// connects when it is first needed, asks the addresses it knows which instance to
// use, and reconnects by itself. [Client.Close] waits for everything: publishes are
// answered, handlers finish, acks are confirmed.
//
// # Publishing
//
//	rs, err := c.Publish(ctx, "orders", ackmesh.NewEvent("order.placed", data).SetPartitionKey(id))
//
// [Client.Publish] returns when every event is on disk, or says which is not.
// [Client.PublishAsync] takes an event and calls back; [Client.Flush] waits for all
// that were taken. Both fill the same requests: an event goes at once while fewer
// than four requests are under way; under load, what comes in the meantime gathers
// into requests of up to 64 events or 48 KiB. What is in flight is bounded by
// [PublishConfig].MaxInFlightBytes; at the limit publishing blocks.
//
// An event that has no id or source gets one here. When an answer is UNAVAILABLE
// or does not come, the event is sent again as it was, and a mesh that remembers
// ids answers with what it stored first. After PublishConfig.Timeout the Result
// tells the error, and the fate of the event is open.
//
// When a rate limit refuses a request, it is sent again after the time that the
// answer tells, and what follows to the same topic waits behind it; at
// PublishConfig.MaxInFlightBytes publishing blocks. A limit that asks for more time
// than the event has left is its result at once.
//
// A server tells how large a request may be, and requests are no larger. An event
// that no request can hold fails with RESOURCE_EXHAUSTED, alone. Where something on
// the way has a limit of its own, and breaks the stream, requests are halved until
// they go through.
//
// # Subscribing
//
//	err := c.Subscribe(ctx, ackmesh.SubscribeConfig{
//		Topics: []string{"orders"}, Mode: ackmesh.LoadBalance, Share: "billing",
//		Concurrency: 8,
//	}, func(ctx context.Context, d *ackmesh.Delivery) error {
//		return bill(ctx, d.Data())
//	})
//
// [Client.Subscribe] runs a handler for each event until its context ends. nil
// acks. An error gives the event back, to come again later: [RetryAfter] says when,
// [DeadLetter] that it is hopeless. A panic is such an error. [ErrHold] leaves it to
// someone else to [Delivery.Ack] or [Delivery.Nack] a [Delivery.Clone].
//
// Events come at least once. They come again when a handler fails, when a stream
// breaks before an ack was confirmed, and when a process dies; [Delivery.Attempt]
// counts. Handlers must bear that.
//
// What the client does for a subscription, without being asked:
//
//   - It moves the ack deadline of all it holds, queued or in a handler, every
//     quarter of the ack timeout: in a handler for up to MaxExtension, queued for as
//     long as handlers get on. A slow handler needs no long ack timeout.
//   - It sends acks in ranges: when they are a quarter of the window, 256 at most, or
//     2 ms after the ones before; at once after a pause. The mesh answers when they are on disk; OnConfirm and [Stream.Confirm]
//     tell. Acks that the mesh could not record are sent again, with growing pauses.
//   - It reconnects after 50 to 100 ms, then more, up to 10 s, to where an instance
//     recommends, and resumes: it tells the positions that it was told, and the acks
//     confirmed since, in case the instance does not know.
//   - Of a stream that broke, it drops what no handler has begun, since it comes
//     again, and tells OnUnconfirmed which acks were lost. Ids of an old stream are
//     never sent on a new one.
//   - When an instance drains, it finishes what is at hand and goes elsewhere. After
//     a reset it drops what is of before it.
//   - When another stream takes its subscription ([ErrSuperseded]), when it is
//     evicted ([ErrEvicted]), or when the mesh refuses for good ([IsPermanent]), it
//     returns the reason and does not fight.
//   - When the context ends, it asks for nothing new, lets the running handlers
//     finish for Grace, has their acks confirmed, and gives the rest back.
//
// # Reading deliveries
//
// A [Delivery] reads attributes and data out of the received message when they are
// asked for; there is no map per event. [Delivery.Attr] looks one up,
// [Delivery.Attributes] ranges over all, [Delivery.Map] makes a map. Bytes are good
// until the handler returns; strings are copies.
//
// # Pulling
//
// [Client.OpenStream] gives the interface below Subscribe: [Stream.Recv] returns
// batches, [Batch.Ack] and [Delivery.Ack] ack them, [Delivery.AckConfirmed] and
// [Stream.Confirm] wait until that is on disk, [Stream.Add], [Stream.Pause] and
// others change the subscriptions of a live stream, [Stream.Close] ends it in order.
// Give batches back with [Batch.Release] where speed matters.
//
// # Speed
//
// Events are written to, and read from, the wire form directly, into and from
// pooled buffers. Go 1.26 on one core of a cloud machine, 1 KiB events with eight
// attributes, everything but the transport: 0.3 µs to encode, 0.7 µs to decode,
// hand to a handler, ack and take the confirmation (BenchmarkConsume -cpu 1). More
// in flight helps: the default window of 1,000 records hides about 2 ms of disk and
// network at 500,000 events a second; set SubscribeConfig.MaxInFlight to 4,096 for
// slower ones.
//
// # Errors
//
// Errors of the mesh carry their gRPC status: status.Code(err) works on all of
// them. Those that this package makes are named in its variables.
package ackmesh
