package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// delivered is one delivery as subscribe prints it: a line of JSON. The id is a
// string since many readers of JSON lose digits of numbers above 2^53.
type delivered struct {
	Topic      string            `json:"topic"`
	Partition  string            `json:"partition"`
	Offset     int64             `json:"offset"`
	Attempt    int32             `json:"attempt"`
	DeliveryID string            `json:"deliveryId"`
	Attributes map[string]string `json:"attributes"`
	Data       json.RawMessage   `json:"data,omitempty"`
	DataBase64 string            `json:"data_base64,omitempty"`
}

// setData puts data where its kind belongs: JSON as it is, text as a string,
// anything else in base64. No data: null.
func (d *delivered) setData(data []byte, contentType string) error {
	switch {
	case len(data) == 0:
		d.Data = json.RawMessage("null")
	case isJSONType(contentType) && json.Valid(data) && utf8.Valid(data):
		var line bytes.Buffer
		if err := json.Compact(&line, data); err != nil {
			return fmt.Errorf("data: %w", err)
		}
		d.Data = line.Bytes()
	case isText(contentType, data):
		text, err := marshal(string(data))
		if err != nil {
			return fmt.Errorf("data: %w", err)
		}
		d.Data = text
	default:
		d.DataBase64 = base64.StdEncoding.EncodeToString(data)
	}
	return nil
}

// line is the delivery as one line, its end included.
func (d *delivered) line() ([]byte, error) {
	text, err := marshal(d)
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// isJSONType says whether a content type is JSON: application/json, …+json.
func isJSONType(contentType string) bool {
	subtype := subtypeOf(contentType)
	return subtype == "json" || strings.HasSuffix(subtype, "+json")
}

// isText says whether data can be shown as text without losing a byte: it is
// UTF-8, and of a content type that is text, or of none.
func isText(contentType string, data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	kind, _, _ := strings.Cut(strings.ToLower(contentType), "/")
	subtype := subtypeOf(contentType)
	return contentType == "" || kind == "text" || isJSONType(contentType) || subtype == "xml" || strings.HasSuffix(subtype, "+xml")
}

func subtypeOf(contentType string) string {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	_, subtype, _ := strings.Cut(strings.TrimSpace(media), "/")
	return subtype
}
