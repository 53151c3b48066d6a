package remoting

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// outQueue is how many requests may wait for the connection's writer.
const outQueue = 64

// conn is a connection that many requests share. A goroutine writes, another
// reads; both end when it breaks.
type conn struct {
	addr string
	nc   net.Conn
	out  chan []byte

	read    atomic.Int64  // when something last came, ns of the monotonic clock
	broken  chan struct{} // closed when it is of no use any more
	breakIt sync.Once
	cause   error // why; valid once broken is closed
	wg      sync.WaitGroup

	mu      sync.Mutex // guards waiting
	waiting map[int32]chan Command
}

// start is the beginning of time for conn.read.
var start = time.Now()

func newConn(addr string, nc net.Conn, writeTimeout time.Duration) *conn {
	c := &conn{addr: addr, nc: nc, out: make(chan []byte, outQueue), broken: make(chan struct{}), waiting: map[int32]chan Command{}}
	c.wg.Go(c.receive)
	c.wg.Go(func() { c.send(writeTimeout) })
	return c
}

// fail breaks the connection. It does not block.
func (c *conn) fail(err error) {
	c.breakIt.Do(func() {
		c.cause = err
		close(c.broken)
		_ = c.nc.Close() // whoever uses it learns of it by failing
	})
}

// close breaks the connection and waits for its goroutines.
func (c *conn) close(err error) {
	c.fail(err)
	c.wg.Wait()
}

func (c *conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

// receive hands responses to those who wait for them. Whoever waits takes at
// most one, so it never waits for them.
func (c *conn) receive() {
	r := bufio.NewReaderSize(c.nc, 64<<10)
	for {
		cmd, err := Read(r)
		if err != nil {
			c.fail(err)
			return
		}
		c.read.Store(int64(time.Since(start)))
		if !cmd.Response {
			continue // a request of the broker's, such as news of a group
		}
		c.mu.Lock()
		ch := c.waiting[cmd.Opaque]
		delete(c.waiting, cmd.Opaque)
		c.mu.Unlock()
		if ch != nil {
			ch <- cmd
		}
	}
}

// send writes frames, many at once where many wait.
func (c *conn) send(timeout time.Duration) {
	w := bufio.NewWriterSize(c.nc, 64<<10)
	for {
		select {
		case <-c.broken:
			return
		case b := <-c.out:
			if err := c.write(w, b, timeout); err != nil {
				c.fail(err)
				return
			}
		}
	}
}

// write writes a frame and those that wait behind it.
func (c *conn) write(w *bufio.Writer, b []byte, timeout time.Duration) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	for {
		if _, err := w.Write(b); err != nil {
			return err
		}
		select {
		case b = <-c.out:
		default:
			return w.Flush()
		}
	}
}

// call sends a request and waits for its response.
func (c *conn) call(ctx context.Context, opaque int32, b []byte) (Command, error) {
	ch := make(chan Command, 1)
	c.mu.Lock()
	c.waiting[opaque] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, opaque)
		c.mu.Unlock()
	}()
	select {
	case <-c.broken:
		return Command{}, c.lost()
	default:
	}
	select {
	case c.out <- b:
	case <-c.broken:
		return Command{}, c.lost()
	case <-ctx.Done():
		return Command{}, ctx.Err()
	}
	select {
	case cmd := <-ch:
		return cmd, nil
	case <-c.broken:
		return c.lastWord(ch)
	case <-ctx.Done():
		return Command{}, ctx.Err()
	}
}

// doubt breaks the connection where nothing at all has come since, so that
// what is asked next goes another way.
func (c *conn) doubt(since time.Time) {
	if c.read.Load() < int64(since.Sub(start)) {
		c.fail(errors.New("the peer is silent"))
	}
}

// lastWord is the response where it came just before the connection broke.
func (c *conn) lastWord(ch chan Command) (Command, error) {
	select {
	case cmd := <-ch:
		return cmd, nil
	default:
		return Command{}, c.lost()
	}
}

func (c *conn) lost() error {
	if errors.Is(c.cause, ErrClosed) || errors.Is(c.cause, ErrMalformed) {
		return c.cause
	}
	return fmt.Errorf("%s: the connection was lost: %w: %w", c.addr, ErrUnreachable, c.cause)
}
