package delivery

import "github.com/ackmesh/ackmesh/offsetstore"

// Cause says why an offset is delivered again.
type Cause uint8

// The causes.
const (
	// CauseRestart: it was unfinished when the machine was made, and what had
	// gone before is not known.
	CauseRestart Cause = iota
	// CauseNacked: its client gave it back.
	CauseNacked
	// CauseTimeout: its ack deadline passed.
	CauseTimeout
	// CauseEnded: its stream ended in order.
	CauseEnded
	// CauseBroken: its stream broke.
	CauseBroken
	// Causes is how many there are.
	Causes
)

var causeNames = [Causes]string{"restart", "nacked", "timeout", "ended", "broken"}

// String is the cause as a word.
func (c Cause) String() string {
	if c >= Causes {
		return "unknown"
	}
	return causeNames[c]
}

// causes of what is given back.
var causeOf = [...]Cause{
	endedCleanly: CauseEnded, timedOut: CauseTimeout, brokeWithOthers: CauseBroken, brokeAlone: CauseBroken,
}

// causeOfWaiting is as much as can be told of an offset that was stored while it
// waited: the cause itself is not stored.
func causeOfWaiting(a offsetstore.Attempt) Cause {
	switch {
	case a.Breaks > 0:
		return CauseBroken
	case a.Spent == 0:
		return CauseEnded
	}
	return CauseRestart
}

// Cause says why an offset that Next lists is delivered again. It means nothing
// for one that is delivered for the first time.
func (m *Machine) Cause(off int64) Cause {
	if r := m.hist[off]; r != nil {
		return r.cause
	}
	return CauseRestart
}
