package remoting

import (
	"encoding/json"
	"fmt"
)

// maxDepth bounds how deep JSON may be nested, maxKeyDepth how deep keys that
// are no strings may be within one another: each level doubles the escapes of
// those within.
const (
	maxDepth    = 64
	maxKeyDepth = 2
)

// Unmarshal reads the JSON of RocketMQ, in which keys may also be numbers and
// objects: {0:"a",{"queueId":1}:2}. Such keys become strings of their text.
// Errors: ErrMalformed.
func Unmarshal(src []byte, v any) error {
	s := standardizer{src: src, out: make([]byte, 0, len(src)+len(src)/8)}
	if err := s.value(0); err != nil {
		return err
	}
	if err := json.Unmarshal(s.out, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// standardizer writes JSON anew with keys that are strings. What it does not
// understand it copies: encoding/json is the judge.
type standardizer struct {
	src  []byte
	at   int
	out  []byte
	keys int // how many odd keys it is within
}

func (s *standardizer) fail(what string) error {
	return fmt.Errorf("JSON at byte %d: %s: %w", s.at, what, ErrMalformed)
}

// peek skips space and returns the next byte; 0: the end.
func (s *standardizer) peek() byte {
	for s.at < len(s.src) {
		switch c := s.src[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// copy takes the next byte over.
func (s *standardizer) copy() {
	s.out = append(s.out, s.src[s.at])
	s.at++
}

func (s *standardizer) value(depth int) error {
	if depth > maxDepth {
		return s.fail("nested too deep")
	}
	switch s.peek() {
	case 0:
		return s.fail("it ends amid a value")
	case '{':
		return s.items(depth, '}', s.member)
	case '[':
		return s.items(depth, ']', s.value)
	case '"':
		return s.text()
	default:
		return s.word()
	}
}

// items reads what stands between brackets.
func (s *standardizer) items(depth int, end byte, item func(int) error) error {
	s.copy()
	if s.peek() == end {
		s.copy()
		return nil
	}
	for {
		if err := item(depth + 1); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.copy()
		case end:
			s.copy()
			return nil
		default:
			return s.fail("want a comma or the end of the list")
		}
	}
}

func (s *standardizer) member(depth int) error {
	if s.peek() == '"' {
		if err := s.text(); err != nil {
			return err
		}
	} else if err := s.oddKey(depth); err != nil {
		return err
	}
	if s.peek() != ':' {
		return s.fail("want a colon")
	}
	s.copy()
	return s.value(depth)
}

// oddKey makes a string of a key that is none.
func (s *standardizer) oddKey(depth int) error {
	if s.keys == maxKeyDepth {
		return s.fail("keys that are no strings are nested too deep")
	}
	key := standardizer{src: s.src, at: s.at, keys: s.keys + 1}
	if err := key.value(depth); err != nil {
		return err
	}
	text, err := json.Marshal(string(key.out))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	s.at = key.at
	s.out = append(s.out, text...)
	return nil
}

func (s *standardizer) text() error {
	s.copy()
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case '"':
			s.copy()
			return nil
		case '\\':
			if s.copy(); s.at < len(s.src) {
				s.copy()
			}
		default:
			s.copy()
		}
	}
	return s.fail("it ends amid a string")
}

// word copies a number, true, false or null.
func (s *standardizer) word() error {
	from := s.at
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			if s.at == from {
				return s.fail("want a value")
			}
			return nil
		}
		s.copy()
	}
	return nil
}
