//go:build linux && long

package power

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/badger"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded"
	"github.com/ackmesh/ackmesh/storage/storagetest"
	"github.com/ackmesh/ackmesh/test/powerloss"
	"github.com/ackmesh/ackmesh/test/tmpfs"
	"github.com/ackmesh/ackmesh/test/traffic"
)

// writer is the environment variable that makes the test binary a program that
// writes to a store without end. It says "found N" when it has seen that N
// writes are there and whole, and then the number of each write that was
// confirmed.
const writer = "ACKMESH_POWER_WRITER"

// writers by name.
var writers = map[string]func(dir string, confirmed func(n int64)) error{
	"offsets": writeOffsets, "log": writeLog,
}

// runWriter does not return in a process that is to write.
func runWriter() {
	name, dir, ok := strings.Cut(os.Getenv(writer), " ")
	if !ok {
		return
	}
	err := writers[name](dir, func(n int64) {
		if _, err := fmt.Println(n); err != nil {
			os.Exit(1)
		}
	})
	_, _ = fmt.Fprintln(os.Stderr, err) // nowhere else to say it
	os.Exit(1)
}

// writeOffsets commits to an offset store whose tables are full after a few
// commits, so that it flushes and compacts all the time.
func writeOffsets(dir string, confirmed func(int64)) error {
	s, err := badger.Open(dir, badger.Options{Sizes: badger.SizesFor(64 << 20)})
	if err != nil {
		return err
	}
	key := offsetstore.Key{Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}, Partition: "0"}
	v, _, err := s.Get(key)
	if err != nil {
		return err
	}
	confirmed(v.Position)
	for n := v.Position + 1; ; n++ {
		txn := &offsetstore.Txn{
			Puts: []offsetstore.Put{{Key: key, Value: offsetstore.Value{Position: n}}},
			Sets: []offsetstore.Record{{Space: "pad", Key: strconv.FormatInt(n%20, 10), Value: pad(n)}},
		}
		if err := offsetstore.Commit(context.Background(), s, txn); err != nil {
			return err
		}
		confirmed(n)
	}
}

// pad is 50 kB that tell their number.
func pad(n int64) []byte {
	return bytes.Repeat(strconv.AppendInt([]byte("pad "), n, 10), 50_000/(4+len(strconv.FormatInt(n, 10))))
}

// writeLog appends to a log that begins a new segment every few appends and
// drops old ones, and reads it while it does.
func writeLog(dir string, confirmed func(int64)) error {
	l, err := embedded.Open(dir, embedded.Options{
		Partitions: 1, SegmentSize: 1 << 20, MaxBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler),
		RetentionInterval: 5 * time.Millisecond, CheckpointInterval: 5 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := l.EnsureTopic(ctx, "t"); err != nil {
		return err
	}
	low, next, err := l.Bounds(ctx, "t", "0")
	if err != nil {
		return err
	}
	if err := whole(ctx, l, low, next); err != nil {
		return err
	}
	confirmed(next)
	for ; ; next++ {
		if err := appendOne(ctx, l, next); err != nil {
			return err
		}
		confirmed(next + 1)
		if err := l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, MaxRecords: 1}, &storage.Batch{}); err != nil {
			if seekErr := l.Seek(ctx, "t", "0", next); seekErr != nil { // retention was faster
				return errors.Join(err, seekErr)
			}
		}
	}
}

func appendOne(ctx context.Context, l *embedded.Log, off int64) error {
	done := make(chan error, 1)
	err := l.Append(ctx, "t", []storage.Event{{Frame: storagetest.Frame(pad(off))}}, func(res []storage.Appended, err error) {
		if err == nil {
			err = res[0].Err
		}
		if err == nil && res[0].Offset != off {
			err = fmt.Errorf("appended at offset %d, not %d", res[0].Offset, off)
		}
		done <- err
	})
	if err != nil {
		return err
	}
	return <-done
}

// whole sees that every record that the log holds is what was appended.
func whole(ctx context.Context, l *embedded.Log, low, next int64) error {
	var b storage.Batch
	for off := low; off < next; off = b.Next {
		if err := l.Poll(ctx, storage.PollRequest{Topic: "t", Partition: "0", Start: off}, &b); err != nil {
			return err
		}
		for _, r := range b.Records {
			if !bytes.Equal(r.Frame, storagetest.Frame(pad(r.Offset))) {
				return fmt.Errorf("the record at offset %d is damaged", r.Offset)
			}
		}
	}
	return nil
}

// TestStoresLosePower: each store loses power 20 times while it makes, fills
// and drops files all the time. It opens every time and has what it confirmed.
func TestStoresLosePower(t *testing.T) {
	for name := range writers {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(traffic.Seed(t), 3))
			data := tmpfs.Mount(t, 400<<20)
			last := int64(0)
			for round := range 20 {
				found, confirmed := loseStore(t, name, data, 1+rnd.IntN(60), round%2 == 1, rnd.Uint64())
				if found < last {
					t.Fatalf("loss %d: %d writes were confirmed, %d are there", round, last, found)
				}
				last = confirmed
			}
			t.Logf("%d writes", last)
		})
	}
}

// loseStore runs a writer until it has confirmed so many writes and cuts the
// power. It returns how many writes the writer found and how many it confirmed
// up to the end.
func loseStore(t *testing.T, name, data string, writes int, torn bool, seed uint64) (found, confirmed int64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &powerloss.Machine{Data: data}
	cmd, err := m.Command(self)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Env = append(cmd.Env, writer+"="+name+" "+filepath.Join(data, name), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for i := -1; i < writes; i++ {
		n, err := readNumber(lines)
		if err != nil {
			_ = cmd.Wait() // it ended badly, as it says
			t.Fatalf("%s: after %d writes: %v\n%s", name, i, err, said.String())
		}
		if i < 0 {
			found = n
		}
		confirmed = n
	}
	if err := m.Off(torn, seed); err != nil {
		_ = cmd.Wait() // it ended badly, as it says
		t.Fatalf("%s: after %d writes: %v\n%s", name, writes, err, said.String())
	}
	for { // what was confirmed before the end
		n, err := readNumber(lines)
		if err != nil {
			break
		}
		confirmed = n
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return found, confirmed
}

// readNumber reads a line; one that was cut off is an error.
func readNumber(r *bufio.Reader) (int64, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return strconv.ParseInt(strings.TrimSpace(line), 10, 64)
}
