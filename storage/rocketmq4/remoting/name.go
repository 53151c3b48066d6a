package remoting

import "fmt"

// maxTopicLen is the longest name of a topic: RocketMQ adds the group's name for
// retries, and takes 255 bytes in all.
const maxTopicLen = 127

// CheckTopic tells whether RocketMQ takes a name for a topic: 1 to 127 letters,
// digits, underscores, dashes, percent signs and bars. Its own topics have such
// names too.
func CheckTopic(name string) error {
	if len(name) < 1 || len(name) > maxTopicLen {
		return fmt.Errorf("topic %q has %d bytes, RocketMQ takes 1 to %d", name, len(name), maxTopicLen)
	}
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '_' && c != '-' && c != '%' && c != '|' {
			return fmt.Errorf("topic %q: RocketMQ takes letters, digits, _, -, %% and |", name)
		}
	}
	return nil
}
