package remoting_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Keys that are no strings become strings of their text; all else stays.
func TestUnmarshal(t *testing.T) {
	for src, want := range map[string]string{
		`{"a":1}`:               `{"a":1}`,
		` { 0 : "x" , -1:[ ] }`: `{"0":"x","-1":[]}`,
		`{{"queueId":1,"topic":"t"}:{"maxOffset":5},{"q":{2:3}}:4}`: `{"{\"queueId\":1,\"topic\":\"t\"}":{"maxOffset":5},"{\"q\":{\"2\":3}}":4}`,
		`[true,null,"\"}{",{}]`: `[true,null,"\"}{",{}]`,
		`"a\\"`:                 `"a\\"`,
	} {
		var got, wanted any
		if err := remoting.Unmarshal([]byte(src), &got); err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s is %v, want %v", src, got, wanted)
		}
	}
}

func TestUnmarshalDamaged(t *testing.T) {
	for _, src := range []string{
		"", "{", "[", `"`, `"\`, "{1", "{1:", "{1:2", "{1 2}", "[1 2]", "{:1}", "{,}", "nope", `{"a":1}}`[:6], "}", ":", "[1,]",
		strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat("{", 100),
	} {
		var v any
		if err := remoting.Unmarshal([]byte(src), &v); !errors.Is(err, remoting.ErrMalformed) {
			t.Errorf("%q: %v, %v; want ErrMalformed", src, v, err)
		}
	}
}

// TestUnmarshalKeysInKeys: each key that is an object is written as a string
// within a string, which doubles its escapes: a few of these in one another are
// refused, before a hundred bytes become all of memory.
func TestUnmarshalKeysInKeys(t *testing.T) {
	nested := func(depth int) []byte {
		return []byte(strings.Repeat("{", depth) + `"a"` + strings.Repeat(":1}", depth))
	}
	var v any
	if err := remoting.Unmarshal(nested(2), &v); err != nil { // one object as a key
		t.Error(err)
	}
	for _, depth := range []int{6, 20, 40, 60} {
		if err := remoting.Unmarshal(nested(depth), &v); !errors.Is(err, remoting.ErrMalformed) {
			t.Fatalf("%d keys in one another: %v", depth, err)
		}
	}
}

// Any bytes give a value or ErrMalformed, and what is JSON is read as it is.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"brokerAddrs":{0:"127.0.0.1:10911"},{"queueId":0}:[1,-2.5e3,true,null]}`))
	f.Add([]byte(`{"a":"\u0001\"b"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, plain any
		err := remoting.Unmarshal(b, &got)
		if err != nil && !errors.Is(err, remoting.ErrMalformed) {
			t.Fatalf("error %v", err)
		}
		if json.Unmarshal(b, &plain) == nil && (err == nil && !reflect.DeepEqual(got, plain)) {
			t.Fatalf("%q is %v, want %v", b, got, plain)
		}
	})
}
