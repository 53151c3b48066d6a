package rocketmq4

import "testing"

// TestForgetKeepsOrder: a topic that is looked up again, because one of its queues
// is gone, goes on with what is queued for the others: what comes now does not
// overtake it.
func TestForgetKeepsOrder(t *testing.T) {
	info := &topicInfo{name: "t", id: "1", parts: []partInfo{{name: "a:0", writable: true}, {name: "a:1", writable: true}}}
	topicOf := func(q *queue) *topicQueue {
		if q.topics["t"] == nil {
			q.topics["t"] = &topicQueue{name: "t", byName: map[string]*partQueue{}}
		}
		return q.topics["t"]
	}
	for name, again := range map[string]func(*queue){
		"forgotten":       func(q *queue) { q.forget("t") },
		"not found again": func(q *queue) { q.drop(q.topics["t"]) },
	} {
		q := &queue{topics: map[string]*topicQueue{}}
		topicOf(q).use(info)
		busy := topicOf(q).byName["a:1"]
		busy.sending = true
		if again(q); topicOf(q).info != nil {
			t.Fatalf("%s: the topic would not be looked up again", name)
		}
		topicOf(q).use(info)
		if topicOf(q).byName["a:1"] != busy {
			t.Errorf("%s: a queue that is being sent has got a second sender", name)
		}
		busy.sending = false
		if again(q); len(q.topics) > 0 {
			t.Errorf("%s: a topic with nothing queued is kept", name)
		}
	}
}
