package storagetest

import (
	"context"

	"github.com/ackmesh/ackmesh/storage"
)

var liteCursorCases = []liteCase{
	{name: "LiteCursor/UnknownAtFirst", run: liteCursorUnknown},
	{name: "LiteCursor/OnlySeekMoves", run: liteCursorSeek},
	{name: "LiteCursor/SurvivesReopen", needs: func(h *LiteHarness) bool { return h.Reopen != nil }, run: liteCursorSurvives},
	{name: "LiteCursor/CrashNeverSkips", needs: func(h *LiteHarness) bool { return h.CrashReopen != nil }, run: liteCursorCrash},
	{name: "LiteCursor/Forgotten", run: liteCursorForgotten},
}

func (c *liteEnv) seekLite(parent, lite string, next int64) {
	c.Helper()
	if err := c.liter().SeekLite(parent, lite, next); err != nil {
		c.Fatalf("SeekLite of %q to %d: %v", lite, next, err)
	}
}

func (c *liteEnv) wantLiteCursor(parent, lite string, next int64) {
	c.Helper()
	if got, ok := c.liter().LiteCursor(parent, lite); !ok || got != next {
		c.Errorf("LiteCursor of %q is %d, %v, want %d, true", lite, got, ok, next)
	}
}

func (c *liteEnv) wantNoLiteCursor(parent, lite string) {
	c.Helper()
	if next, ok := c.liter().LiteCursor(parent, lite); ok {
		c.Errorf("LiteCursor of %q is %d, want unknown", lite, next)
	}
}

// liteCursorUnknown: absent is not 0.
func liteCursorUnknown(c *liteEnv) {
	parent := c.parent()
	c.put(parent, "a", "a", 0, 3)
	c.wantNoLiteCursor(parent, "a")
	c.wantNoLiteCursor(parent, "never-made")
	c.wantNoLiteCursor(topicName(), "a")
	if err := c.liter().SeekLite(parent, "a", -1); err == nil {
		c.Errorf("SeekLite to -1 is taken")
	}
	c.wantNoLiteCursor(parent, "a")
	c.seekLite(parent, "a", 0)
	c.wantLiteCursor(parent, "a", 0)
}

// liteCursorSeek: reading does not move it, and each lite topic has its own.
func liteCursorSeek(c *liteEnv) {
	parent, other := c.parent(), c.parent()
	list := c.put(parent, "a", "a", 0, 5)
	c.put(parent, "b", "b", 0, 5)
	c.put(other, "a", "a", 0, 5)
	c.seekLite(parent, "a", list[2].offset)
	c.wantLite(parent, list)
	c.wantLiteCursor(parent, "a", list[2].offset)
	c.wantNoLiteCursor(parent, "b")
	c.wantNoLiteCursor(other, "a")
	c.seekLite(parent, "a", list[4].offset)
	c.wantLiteCursor(parent, "a", list[4].offset)
	c.seekLite(parent, "a", list[1].offset)
	c.wantLiteCursor(parent, "a", list[1].offset)
}

// liteCursorSurvives: a clean end saves all of them, and makes none up.
func liteCursorSurvives(c *liteEnv) {
	parent := c.parent()
	for i := range 20 {
		c.ensure(parent, liteName(i))
		if i%2 == 0 {
			c.seekLite(parent, liteName(i), int64(i))
		}
	}
	for range 2 {
		c.reopen()
		for i := range 20 {
			if i%2 == 0 {
				c.wantLiteCursor(parent, liteName(i), int64(i))
			} else {
				c.wantNoLiteCursor(parent, liteName(i))
			}
		}
	}
}

// liteCursorCrash: after a crash it may be old, never beyond what was set; after
// a checkpoint it is what it was.
func liteCursorCrash(c *liteEnv) {
	parent := c.parent()
	c.put(parent, "a", "a", 0, 9)
	for next := range int64(3) {
		c.seekLite(parent, "a", next)
		c.crash()
		if got, ok := c.liter().LiteCursor(parent, "a"); ok && got > next {
			c.Errorf("LiteCursor was %d before a crash and is %d after it", next, got)
		}
	}
	cp, ok := storage.As[storage.Checkpointer](c.b)
	if !ok {
		return
	}
	c.seekLite(parent, "a", 7)
	c.must("Checkpoint", func(ctx context.Context) error { return cp.Checkpoint(ctx) })
	c.seekLite(parent, "a", 9)
	c.crash()
	if got, ok := c.liter().LiteCursor(parent, "a"); !ok || got != 7 && got != 9 {
		c.Errorf("LiteCursor was saved at 7 and is %d, %v after a crash", got, ok)
	}
}

// liteCursorForgotten: of one that was forgotten nothing is kept.
func liteCursorForgotten(c *liteEnv) {
	parent := c.parent()
	c.put(parent, "a", "a", 0, 3)
	c.seekLite(parent, "a", 2)
	c.seekLite(parent, "b", 1)
	c.liter().ForgetLite(parent, "a")
	c.liter().ForgetLite(parent, "never-made")
	c.wantNoLiteCursor(parent, "a")
	c.wantLiteCursor(parent, "b", 1)
	c.seekLite(parent, "a", 1)
	c.wantLiteCursor(parent, "a", 1)
}
