package kafka

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

const (
	// giveUp is how long the producer looks for a leader.
	giveUp = 30 * time.Second
	// giveUpMissing is how long it looks for a topic that brokers say is
	// missing: one that was just made may not be known everywhere.
	giveUpMissing = 1500 * time.Millisecond
	// retries is how often a batch is sent again. With the pauses between it
	// takes about giveUp.
	retries = 32
)

// producer is an AsyncProducer. It is made when first needed: a log that is
// only read has none.
type producer struct {
	q        *queue
	dialer   *dialer
	haste    atomic.Bool // no pauses any more
	messages int         // that it has; guarded by the queue's lock

	mu     sync.Mutex // guards what follows
	async  sarama.AsyncProducer
	client sarama.Client
	wg     sync.WaitGroup
}

func newProducer(q *queue) *producer {
	return &producer{q: q, dialer: newDialer(q.l.opts)}
}

// config makes sarama's settings for writing. Idempotence needs acks from all
// replicas in sync and one request under way at a time; while one is, the
// next batch gathers, so batches need no timer.
func (p *producer) config() *sarama.Config {
	o := p.q.l.opts
	c := o.config(p.dialer)
	c.ChannelBufferSize = inFlight
	c.Metadata.Full = false
	c.Metadata.AllowAutoTopicCreation = false
	c.Metadata.RefreshFrequency = time.Minute
	c.Metadata.Retry.Max = 0 // patient does that
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Producer.Timeout = o.RequestTimeout
	c.Producer.Compression = codecs[o.Compression]
	c.Producer.MaxMessageBytes = o.MaxRecordBytes + headerOverhead
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Return.Successes = true
	c.Producer.Return.Errors = true
	c.Producer.Retry.Max = retries
	c.Producer.Retry.BackoffFunc = p.pause
	return c
}

// pause is the pause before a batch is sent again: 20 ms, twice as long each
// time, up to 1 s.
func (p *producer) pause(n, _ int) time.Duration {
	if p.haste.Load() {
		return 0
	}
	return min(20*time.Millisecond<<min(n, 10), time.Second)
}

// get returns the producer, and makes it first where there is none.
func (p *producer) get() (sarama.AsyncProducer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.async != nil {
		return p.async, nil
	}
	client, err := sarama.NewClient(p.q.l.opts.Brokers, p.config())
	if err != nil {
		return nil, err
	}
	async, err := sarama.NewAsyncProducerFromClient(&patient{Client: client, p: p})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	p.async, p.client = async, client
	p.wg.Go(func() { p.collect(async) })
	return async, nil
}

// send hands items to the producer. Where there is none to be had they fail.
func (p *producer) send(items []*item) {
	async, err := p.retryGet()
	if err != nil {
		p.q.landed(items)
		for _, it := range items {
			p.q.l.finish(it, it.fate(err))
		}
		return
	}
	for _, it := range items {
		async.Input() <- &it.msg
	}
}

// retryGet is get, and tries for a while.
func (p *producer) retryGet() (async sarama.AsyncProducer, err error) {
	until := time.Now().Add(giveUp)
	for n := 0; ; n++ {
		if async, err = p.get(); err == nil || p.haste.Load() || time.Now().After(until) {
			return async, err
		}
		if sleep(p.dialer.ctx, p.pause(n, 0)) != nil {
			return nil, err
		}
	}
}

// collect takes the fates of messages until the producer is closed.
func (p *producer) collect(async sarama.AsyncProducer) {
	successes, failures := async.Successes(), async.Errors()
	var landed []outcome
	for successes != nil || failures != nil {
		landed = landed[:0]
		select {
		case m, ok := <-successes:
			if !ok {
				successes = nil
				continue
			}
			landed = append(landed, succeeded(m))
		case e, ok := <-failures:
			if !ok {
				failures = nil
				continue
			}
			landed = append(landed, failed(e))
		}
		landed = more(landed, successes)
		p.tell(landed)
	}
}

// outcome is what became of an item.
type outcome struct {
	it  *item
	err error
}

func succeeded(m *sarama.ProducerMessage) outcome {
	it, _ := m.Metadata.(*item) // we put it there
	return outcome{it: it}
}

func failed(e *sarama.ProducerError) outcome {
	it, _ := e.Msg.Metadata.(*item) // we put it there
	return outcome{it: it, err: e.Err}
}

// more adds the successes that are there already.
func more(landed []outcome, successes <-chan *sarama.ProducerMessage) []outcome {
	for len(landed) < sendBatch {
		select {
		case m, ok := <-successes:
			if !ok {
				return landed
			}
			landed = append(landed, succeeded(m))
		default:
			return landed
		}
	}
	return landed
}

// tell tells the fates.
func (p *producer) tell(landed []outcome) {
	items := make([]*item, len(landed))
	for i, o := range landed {
		items[i] = o.it
	}
	p.q.landed(items)
	for _, o := range landed {
		err := o.it.fate(o.err)
		if p.haste.Load() && errors.Is(err, storage.ErrUnavailable) {
			err = errors.Join(errClosed(), err)
		}
		if errors.Is(err, storage.ErrTopicNotFound) {
			p.q.forget(o.it.call.topic)
		}
		p.q.l.finish(o.it, err)
	}
}

// refresh makes the producer learn how many partitions a topic has.
func (p *producer) refresh(topic string) error {
	p.mu.Lock()
	client := p.client
	p.mu.Unlock()
	if client == nil {
		return nil // it asks when it is made
	}
	if err := client.RefreshMetadata(topic); err != nil {
		return explain("metadata for the producer", err)
	}
	return nil
}

// hurry makes everything under way fail soon.
func (p *producer) hurry() {
	p.haste.Store(true)
	p.dialer.cut()
}

// close ends the producer, which has nothing to do any more.
func (p *producer) close() {
	p.mu.Lock()
	async, client := p.async, p.client
	p.mu.Unlock()
	if async != nil {
		async.AsyncClose()
		p.wg.Wait()
		if err := client.Close(); err != nil && !errors.Is(err, sarama.ErrClosedClient) {
			p.q.l.opts.Logger.Warn("kafka: the producer's connections could not be closed", "error", err)
		}
	}
	p.dialer.cut()
}

// patient is the producer's client. sarama gives messages back when it does
// not find their leader at once, though a broker that is started again is
// back in seconds.
type patient struct {
	sarama.Client
	p *producer
}

// RefreshMetadata implements sarama.Client.
func (c *patient) RefreshMetadata(topics ...string) error {
	began := time.Now()
	for n := 0; ; n++ {
		err := c.Client.RefreshMetadata(topics...)
		limit := giveUp
		if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			limit = giveUpMissing
		}
		if err == nil || c.p.haste.Load() || time.Since(began) > limit || errors.Is(err, sarama.ErrClosedClient) {
			return err
		}
		if sleep(c.p.dialer.ctx, c.p.pause(n, 0)) != nil {
			return err
		}
	}
}
