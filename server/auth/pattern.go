package auth

import (
	"errors"
	"slices"
	"strings"
)

// Pattern matches names: * stands for any number of characters, none included,
// everything else for itself. \* is a star and \\ a backslash.
type Pattern struct {
	text  string
	parts []string // what stands between the stars; one part: no star
}

// maxPattern bounds the bytes of a pattern: names have 255 at most.
const maxPattern = 1024

var (
	errPatternLong   = errors.New("it has more than 1024 bytes")
	errPatternEscape = errors.New(`a backslash must be followed by * or \`)
)

// ParsePattern reads a pattern. The empty one matches the empty name only, which
// is that of a topic's default share.
func ParsePattern(text string) (Pattern, error) {
	if len(text) > maxPattern {
		return Pattern{}, errPatternLong
	}
	p := Pattern{text: text}
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '*':
			p.parts = append(p.parts, part.String())
			part.Reset()
		case c != '\\':
			part.WriteByte(c)
		case i+1 < len(text) && (text[i+1] == '*' || text[i+1] == '\\'):
			i++
			part.WriteByte(text[i])
		default:
			return Pattern{}, errPatternEscape
		}
	}
	p.parts = append(p.parts, part.String())
	return p, nil
}

// String is the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Match tells whether the pattern matches the whole name. The time it takes is
// at most proportional to the lengths of both, whatever they are.
func (p Pattern) Match(name string) bool {
	last := len(p.parts) - 1
	if last < 0 {
		return false // the zero Pattern
	}
	if last == 0 {
		return name == p.parts[0]
	}
	rest, ok := strings.CutPrefix(name, p.parts[0])
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, p.parts[last]); !ok {
		return false
	}
	for _, part := range p.parts[1:last] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return true
}

// all tells whether the pattern matches every name.
func (p Pattern) all() bool {
	return len(p.parts) > 1 && !slices.ContainsFunc(p.parts, func(s string) bool { return s != "" })
}

// Patterns is a list of patterns. An empty list matches nothing.
type Patterns []Pattern

// Match tells whether any of the patterns matches name.
func (l Patterns) Match(name string) bool {
	for i := range l {
		if l[i].Match(name) {
			return true
		}
	}
	return false
}

// All tells whether one of the patterns matches every name: whether it is *.
func (l Patterns) All() bool { return slices.ContainsFunc(l, Pattern.all) }
