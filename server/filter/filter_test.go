package filter

import (
	"errors"
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/frame"
)

func stored(t testing.TB, attrs ...string) frame.View {
	t.Helper()
	f := frame.Frame{Type: frame.Event}
	for i := 0; i < len(attrs); i += 2 {
		f.Set(attrs[i], attrs[i+1])
	}
	raw, err := frame.Append(nil, &f)
	if err != nil {
		t.Fatal(err)
	}
	return frame.View(raw)
}

func TestMatch(t *testing.T) {
	v := stored(t, "id", "7", "source", "/shop/eu", "type", "order.paid", "subject", "s1", "region", "eu", "amount", "120", "flag", "true")
	for expr, want := range map[string]bool{
		"type = 'order.paid'":                       true,
		"type = 'order.made'":                       false,
		"type LIKE 'order.%' AND region = 'eu'":     true,
		"region IN ('us', 'eu')":                    true,
		"NOT (region = 'eu')":                       false,
		"EXISTS region":                             true,
		"EXISTS nothing":                            false,
		"nothing = 'x'":                             false,
		"INT(amount) > 100":                         true,
		"amount > 200":                              false,
		"source = '/shop/eu' OR nothing = 'x'":      true,
		"LENGTH(subject) = 2":                       true,
		"BOOL(flag)":                                true,
		"region":                                    false,
		"'x' = 'x'":                                 true,
		"id = '7' AND subject <> 's2'":              true,
		"CONCAT(region, '-', subject) = 'eu-s1'":    true,
		"type = 'order.paid' XOR region = 'eu'":     false,
		"UPPER(region) = 'EU' AND LEFT(id, 1)= '7'": true,
	} {
		f, err := Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got := f.Match(v); got != want {
			t.Errorf("%s: %v, want %v", expr, got, want)
		}
	}
}

func TestBadExpressions(t *testing.T) {
	for _, expr := range []string{
		"", "   ", "type =", "type = 'x", "(", ")", "type == 'x'", "AND", "type = 'a' 'b'", "'", "%%%", "NOSUCH(1)",
		strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000), strings.Repeat("NOT ", 500) + "true",
		strings.Repeat("x", MaxLen+1), strings.Repeat("a=1 OR ", 400) + "b=2",
	} {
		_, err := Compile(expr)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.40q: %v, want an Error", expr, err)
		}
	}
	_, err := Compile("type = 'a' AND region ==== 'b'")
	var e *Error
	if !errors.As(err, &e) || e.Column < 20 {
		t.Errorf("the place of an error: %v", err)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"type = 'a'", "NOT x", "a IN ('b')", "(((", "\x00", "日本 = '本'"} {
		f.Add(s)
	}
	v := stored(f, "type", "a", "x", "true")
	f.Fuzz(func(_ *testing.T, s string) {
		if c, err := Compile(s); err == nil {
			c.Match(v)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	v := stored(b, "id", "7", "source", "/s", "type", "order.paid", "region", "eu", "a", "1", "b", "2", "c", "3", "d", "4")
	f, err := Compile("type = 'order.paid' AND region = 'eu'")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f.Match(v)
	}
}
