package seglog

import (
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// prepared is a segment file made ahead of its use.
type prepared struct {
	file vfs.File
	size int64
	err  error
}

// Write appends the entries of a batch, syncs, and returns the position of the
// first. After an error nothing of the batch is in the log, and the next
// Write begins at the same position: the log heals as soon as the disk does.
func (l *Log) Write(b *Batch) (pos int64, err error) {
	if l.closed.Load() {
		return 0, ErrClosed
	}
	if b.Len() == 0 {
		return l.end.Load(), nil
	}
	s, err := l.segmentFor(int64(b.Len()))
	if err != nil {
		return 0, err
	}
	pos = l.end.Load()
	last := b.seal(pos, l.prev)
	if err := l.writeTo(s, pos, b.buf); err != nil {
		s.wipe(pos)
		return 0, fmt.Errorf("write %d bytes to %s: %w", b.Len(), l.opts.name(s.seq), err)
	}
	l.prev = last
	l.publish(s, pos+int64(b.Len()))
	l.prepareAhead(s)
	return pos, nil
}

// publish makes what was written readable. A new segment joins the log only
// now: one without a durable header must not outlive the one before it.
func (l *Log) publish(s *segment, end int64) {
	if s != l.fresh {
		l.end.Store(end)
		return
	}
	l.mu.Lock()
	l.segs = append(l.segs, s)
	l.end.Store(end)
	l.mu.Unlock()
	l.fresh = nil
}

func (l *Log) writeTo(s *segment, pos int64, b []byte) error {
	if !s.headed {
		if _, err := s.file.WriteAt(fileHeader(s.seq, s.base), 0); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(b, pos-s.base+headerLen); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.headed = true
	return nil
}

// wipe makes it unlikely that a later start finds the failed Write whole: its
// sender was told that it failed. No promise hangs on it, so errors, which are
// likely now, do not matter.
func (s *segment) wipe(pos int64) {
	_, _ = s.file.WriteAt(make([]byte, EntryHeader), pos-s.base+headerLen)
}

// segmentFor returns the segment to write n bytes to: the present one or, if
// that is full, a new one.
func (l *Log) segmentFor(n int64) (*segment, error) {
	if l.fresh != nil {
		return l.fresh, nil
	}
	l.mu.RLock()
	s := l.segs[len(l.segs)-1]
	l.mu.RUnlock()
	end := l.end.Load()
	if end == s.base || end-s.base+headerLen+n <= s.size {
		return s, nil
	}
	p := l.takePrepared(s.seq+1, n)
	if p.err != nil {
		return nil, fmt.Errorf("new segment %s: %w", l.opts.name(s.seq+1), p.err)
	}
	l.fresh = &segment{seq: s.seq + 1, base: end, size: p.size, file: p.file, users: 1}
	return l.fresh, nil
}

// takePrepared waits for the file that is prepared or makes it now.
func (l *Log) takePrepared(seq, n int64) prepared {
	if l.preparing {
		l.preparing = false
		if p := <-l.next; p.err == nil {
			return p
		}
	}
	return l.prepare(seq, l.nextSize(n))
}

// nextSize lets segments grow with the log, so that a small log stays small.
func (l *Log) nextSize(n int64) int64 {
	l.mu.RLock()
	held := l.end.Load() - l.segs[0].base
	l.mu.RUnlock()
	return max(min(max(held, firstSegmentSize), l.opts.SegmentSize), n+headerLen)
}

// prepareAhead makes the next segment's file in the background once the
// present one is half full, so that the writer need not wait for it.
func (l *Log) prepareAhead(s *segment) {
	if l.preparing || l.end.Load()-s.base < s.size/2 {
		return
	}
	l.preparing = true
	seq, size := s.seq+1, l.nextSize(0)
	l.wg.Go(func() { l.next <- l.prepare(seq, size) })
}

// prepare makes an empty file of full length whose name is durable.
func (l *Log) prepare(seq, size int64) prepared {
	f, err := l.opts.FS.Create(l.opts.name(seq))
	if err != nil {
		return prepared{err: err}
	}
	err = f.Allocate(size)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.opts.FS.SyncDir(l.opts.Dir)
	}
	if err != nil {
		// Leave nothing that takes room on a full disk.
		return prepared{err: errors.Join(err, f.Close(), l.opts.FS.Remove(l.opts.name(seq)))}
	}
	return prepared{file: f, size: size}
}
