package ackmesh

import "testing"

// Acks that wait for others must not be what fills the window.
func TestUsualAckBatch(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  SubscribeConfig
		want int
	}{
		"the server's window": {SubscribeConfig{}, 250},
		"a large window":      {SubscribeConfig{MaxInFlight: 4096}, 256},
		"a small window":      {SubscribeConfig{MaxInFlight: 100}, 25},
		"one at a time":       {SubscribeConfig{MaxInFlight: 1}, 1},
		"one small window":    {SubscribeConfig{MaxInFlight: 4096, Subscriptions: []Subscription{{}, {MaxInFlight: 20}, {MaxInFlight: 80}}}, 5},
		"chosen":              {SubscribeConfig{MaxInFlight: 1, AckBatch: 7}, 7},
	} {
		if got := c.cfg.withDefaults().AckBatch; got != c.want {
			t.Errorf("%s: %d acks go together, not %d", name, got, c.want)
		}
	}
}
