package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// turnFor is how long a partition's suspect keeps those of the others waiting.
const turnFor = 10 * time.Second

// turns lets one suspect of a subscriber be on its way at a time, whatever
// partition it is of. Each machine sees to it that nothing of its own partition is
// beside a suspect; without turns those of all partitions would come together when
// their client is back, and break it together until all of them had died of the one
// that does it. A client takes turns over all of its topics, for they come on one
// stream; a share over the partitions of its topic.
//
// A turn ends with the suspect's answer, or its break. One that a client works on
// for longer than turnFor goes on without it. Turns are taken in the order in which
// they were asked for. Nothing here is of any cost where there are no suspects.
type turns struct {
	mu sync.Mutex
	of map[offsetstore.Key]*turn
}

// turn is who has it, since when, and who waits for it.
type turn struct {
	holder *part
	since  time.Time
	queue  []*part
}

// turnKey names those who take turns with a part.
func turnKey(k offsetstore.Key) offsetstore.Key {
	if k.Subscriber.Kind == offsetstore.KindClient {
		k.Topic = ""
	}
	k.Partition = ""
	return k
}

// take asks for the turn. When it is not given, p is looked at again when it is, and
// should ask again at the time that is returned. more: p had the turn, and asks for
// another one.
func (t *turns) take(p *part, more bool, now time.Time) (ok bool, again time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := turnKey(p.key)
	s := t.of[key]
	if s == nil {
		s = &turn{}
		if t.of == nil {
			t.of = map[offsetstore.Key]*turn{}
		}
		t.of[key] = s
	}
	if s.holder == p && more && len(s.queue) > 0 {
		s.queue = append(s.queue, p)
		s.next(now)
	}
	over := s.holder != nil && now.Sub(s.since) >= turnFor
	switch {
	case s.holder == p && !more:
		return true, time.Time{}
	case s.holder == nil, s.holder == p, over:
		s.leave(p)
		s.holder, s.since = p, now
		return true, time.Time{}
	case !slices.Contains(s.queue, p):
		s.queue = append(s.queue, p)
	}
	return false, s.since.Add(turnFor)
}

// leave ends what p has, or waits for.
func (t *turns) leave(p *part, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := turnKey(p.key)
	s := t.of[key]
	if s == nil {
		return
	}
	s.leave(p)
	if s.holder == p {
		s.next(now)
	}
	if s.holder == nil {
		delete(t.of, key)
	}
}

func (s *turn) leave(p *part) {
	s.queue = slices.DeleteFunc(s.queue, func(q *part) bool { return q == p })
}

// next gives the turn to who waits longest, who is told.
func (s *turn) next(now time.Time) {
	if s.holder = nil; len(s.queue) == 0 {
		return
	}
	p := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	s.holder, s.since = p, now
	p.l.post(event{kind: evCall, call: func() { p.l.touch(p) }})
}

// takeTurn asks for p's turn where it wants to send a suspect, and gives it back
// when it has none any more.
func (l *loop) takeTurn(p *part, now time.Time) {
	switch {
	case p.m.HasSuspectOut():
		p.turn.used, p.turn.again = true, time.Time{}
	case p.m.WantsSuspectOut():
		ok, again := l.d.turns.take(p, p.turn.used, now)
		p.turn = partTurn{known: true, again: again}
		p.m.HoldSuspects(!ok)
	default:
		l.leaveTurn(p, now)
	}
}

func (l *loop) leaveTurn(p *part, now time.Time) {
	if p.turn.known {
		p.turn = partTurn{}
		l.d.turns.leave(p, now)
	}
}

// partTurn is what a part knows of its turn.
type partTurn struct {
	known bool      // it has it, had it, or waits for it
	used  bool      // a suspect was sent in it
	again time.Time // when to ask again; zero: it need not
}
