package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestDeliveredLine(t *testing.T) {
	head := `{"topic":"t","partition":"0","offset":5,"attempt":2,"deliveryId":"9007199254740993","attributes":{"id":"<7>"}`
	tests := []struct{ name, contentType, data, want string }{
		{"JSON", "application/json", "{\"a\": [1,\n\"<&>\"]}", `"data":{"a":[1,"<&>"]}`},
		{"JSON by suffix", "application/x+JSON; charset=utf-8", `1`, `"data":1`},
		{"JSON that is none", "application/json", `{"a"`, `"data":"{\"a\""`},
		{"text", "text/plain", "a\nb", `"data":"a\nb"`},
		{"XML", "application/xml", "<a/>", `"data":"<a/>"`},
		{"untyped text", "", "hello", `"data":"hello"`},
		{"untyped bytes", "", "\xff\x00", `"data_base64":"/wA="`},
		{"text that is none", "text/plain", "\xff", `"data_base64":"/w=="`},
		{"binary", "image/png", "PNG", `"data_base64":"UE5H"`},
		{"nothing", "application/json", "", `"data":null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := delivered{Topic: "t", Partition: "0", Offset: 5, Attempt: 2, DeliveryID: "9007199254740993", Attributes: map[string]string{"id": "<7>"}}
			if err := d.setData([]byte(tt.data), tt.contentType); err != nil {
				t.Fatal(err)
			}
			line, err := d.line()
			if want := head + "," + tt.want + "}\n"; err != nil || string(line) != want {
				t.Errorf("got  %s, %v\nwant %s", line, err, want)
			}
		})
	}
}

// TestDeliveredKeepsData reads printed lines back: one line each, and of text
// and bytes nothing is lost.
func TestDeliveredKeepsData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "data")
		contentType := rapid.SampledFrom([]string{"", "text/plain", "application/json", "application/octet-stream", "x"}).Draw(t, "type")
		var d, got delivered
		if err := d.setData(data, contentType); err != nil {
			t.Fatal(err)
		}
		line, err := d.line()
		if err != nil || bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("%q, %v", line, err)
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if isJSON := json.Valid(data) && utf8.Valid(data); !isJSON && !bytes.Equal(dataOf(t, got), data) {
			t.Fatalf("%q became %s", data, line)
		}
	})
}

func dataOf(t *rapid.T, d delivered) []byte {
	if d.DataBase64 != "" {
		data, err := base64.StdEncoding.DecodeString(d.DataBase64)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var text string
	if json.Unmarshal(d.Data, &text) == nil {
		return []byte(text)
	}
	return d.Data
}
