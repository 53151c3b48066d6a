package storagetest

import (
	"context"

	"github.com/ackmesh/ackmesh/storage"
)

var capabilityCases = []testCase{
	{name: "Capability/AsDeclared", run: capabilitiesAsDeclared},
	{name: "Capability/ThroughWrapper", run: capabilitiesThroughWrapper},
	{name: "Capability/UnknownAck", needs: func(h *Harness) bool { return h.Has.Acker }, run: ackUnknown},
}

// present tells which capabilities As finds.
func present(b storage.Backend) map[string]bool {
	return map[string]bool{
		"Bounder":       has[storage.Bounder](b),
		"TopicAdmin":    has[storage.TopicAdmin](b),
		"Trimmer":       has[storage.Trimmer](b),
		"Fingerprinter": has[storage.Fingerprinter](b),
		"Checkpointer":  has[storage.Checkpointer](b),
		"Acker":         has[storage.Acker](b),
		"Liter":         has[storage.Liter](b),
	}
}

func has[C any](b storage.Backend) bool {
	_, ok := storage.As[C](b)
	return ok
}

func (h Capabilities) declared() map[string]bool {
	return map[string]bool{
		"Bounder":       h.Bounder,
		"TopicAdmin":    h.TopicAdmin,
		"Trimmer":       h.Trimmer,
		"Fingerprinter": h.Fingerprinter,
		"Checkpointer":  h.Checkpointer,
		"Acker":         h.Acker,
		"Liter":         h.Liter,
	}
}

func (c *env) wantCapabilities(what string, b storage.Backend) {
	c.Helper()
	found := present(b)
	for name, declared := range c.h.Has.declared() {
		if found[name] != declared {
			c.Errorf("%s: %s is declared %v and found %v", what, name, declared, found[name])
		}
	}
}

func capabilitiesAsDeclared(c *env) { c.wantCapabilities("the backend", c.b) }

// plain is a wrapper that knows no capability.
type plain struct{ storage.Backend }

func (p plain) Unwrap() storage.Backend { return p.Backend }

func capabilitiesThroughWrapper(c *env) { c.wantCapabilities("in two wrappers", plain{plain{c.b}}) }

// ackUnknown: a handle that the log does not know is no error.
func ackUnknown(c *env) {
	handles := []any{"unknown", nil, 7}
	var known []bool
	c.must("Ack", func(ctx context.Context) (err error) {
		known, err = need[storage.Acker](c).Ack(ctx, handles)
		return err
	})
	if len(known) != len(handles) || known[0] || known[1] || known[2] {
		c.Errorf("Ack of %d unknown handles gives %v", len(handles), known)
	}
}
