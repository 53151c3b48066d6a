package auth

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPatterns(t *testing.T) {
	tests := []struct {
		pattern string
		matches []string
		not     []string
	}{
		{"orders", []string{"orders"}, []string{"", "order", "orders2", "my-orders", "Orders"}},
		{"orders*", []string{"orders", "orders_DLQ", "orders*"}, []string{"order", "my-orders"}},
		{"*orders", []string{"orders", "my-orders"}, []string{"orders2"}},
		{"*", []string{"", "a", "a/b#c:d", "世界", "*"}, nil},
		{"**", []string{"", "a"}, nil},
		{"a*b", []string{"ab", "axb", "a世b", "abb"}, []string{"a", "b", "aba", "ba"}},
		{"a*a", []string{"aa", "aaa", "aba"}, []string{"a"}},
		{"a*bc*d", []string{"abcd", "a-bc-d", "abcbcd"}, []string{"abd", "acd", "abc", "acbd"}},
		{"a*b*b*c", []string{"abbc", "axbxbxc"}, []string{"abc"}},
		{"", []string{""}, []string{"a", " "}},
		{`a\*`, []string{"a*"}, []string{"a", "ab", `a\*`}},
		{`a\\*`, []string{`a\`, `a\b`}, []string{"a", "ab"}},
		{"a?b[c].d+", []string{"a?b[c].d+"}, []string{"axbc.d"}},
		{"a/*", []string{"a/", "a/b/c"}, []string{"a", "b/a/c"}},
	}
	for _, tt := range tests {
		p, err := ParsePattern(tt.pattern)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		for _, name := range tt.matches {
			if !p.Match(name) {
				t.Errorf("%q does not match %q", tt.pattern, name)
			}
		}
		for _, name := range tt.not {
			if p.Match(name) {
				t.Errorf("%q matches %q", tt.pattern, name)
			}
		}
		if p.String() != tt.pattern {
			t.Errorf("%q is written as %q", tt.pattern, p)
		}
	}
	if (Pattern{}).Match("") || (Patterns{}).Match("a") || Patterns(nil).Match("") {
		t.Error("no pattern matches something")
	}
}

func TestBadPatterns(t *testing.T) {
	for _, text := range []string{`a\`, `\a`, `a\nb`, strings.Repeat("x", 1025)} {
		if _, err := ParsePattern(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestPatternOfAll(t *testing.T) {
	for text, want := range map[string]bool{"*": true, "**": true, "a*": false, "*a": false, "": false, "a": false, `\*`: false, "*a*": false} {
		p, err := ParsePattern(text)
		if err != nil || p.all() != want || (Patterns{p}).All() != want {
			t.Errorf("%q matches everything: %v, %v", text, p.all(), err)
		}
	}
}

// TestPatternsAgainstRegexp holds patterns against regular expressions that say
// the same.
func TestPatternsAgainstRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[ab\\*.#é]{0,3}`), 1, 4).Draw(t, "parts")
		var pattern, expr []string
		for _, part := range parts {
			pattern = append(pattern, strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(part))
			expr = append(expr, regexp.QuoteMeta(part))
		}
		p, err := ParsePattern(strings.Join(pattern, "*"))
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`^(?s:` + strings.Join(expr, ".*") + `)$`)
		name := rapid.OneOf(
			rapid.StringMatching(`[ab\\*.#é]{0,8}`),
			rapid.Custom(func(t *rapid.T) string { // one that is likely to match
				return strings.Join(parts, rapid.StringMatching(`[ab]{0,2}`).Draw(t, "between"))
			}),
		).Draw(t, "name")
		if got := p.Match(name); got != want.MatchString(name) {
			t.Fatalf("%q matches %q: %v", p, name, got)
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, text := range []string{"", "*", "a*b", `\*`, `\`, "世*"} {
		f.Add(text, "a世b")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := ParsePattern(text)
		if err == nil && p.all() && !p.Match(name) {
			t.Errorf("%q matches all but not %q", text, name)
		}
	})
}
