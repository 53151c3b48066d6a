package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/server"
)

// setting is one field of a server.Config that a person can set. Its name is
// the path of key tags: ack-timeout.default.
type setting struct {
	key   string
	field reflect.Value
}

// settings returns all settings of c, in the order of its fields. Setting one
// changes c.
func settings(c *server.Config) []setting {
	return appendSettings(nil, "", reflect.ValueOf(c).Elem())
}

func appendSettings(list []setting, prefix string, group reflect.Value) []setting {
	for i := range group.NumField() {
		key, field := prefix+group.Type().Field(i).Tag.Get("key"), group.Field(i)
		if field.Kind() == reflect.Struct {
			list = appendSettings(list, key+".", field)
			continue
		}
		list = append(list, setting{key, field})
	}
	return list
}

// set reads the setting's value from text.
func (s setting) set(text string) error {
	var err error
	switch p := s.field.Addr().Interface().(type) {
	case *string:
		*p = text
	case *server.Secret:
		*p = server.Secret(text)
	case *server.Bytes:
		err = p.UnmarshalText([]byte(text))
	case *time.Duration:
		*p, err = parseDuration(text)
	case *[]time.Duration:
		*p, err = parseDurations(text)
	case *bool:
		*p, err = parseBool(text)
	case *int:
		*p, err = parseWhole[int](text)
	case *int64:
		*p, err = parseWhole[int64](text)
	case *float64:
		*p, err = parseNumber(text)
	default:
		err = fmt.Errorf("settings of type %s cannot be read", s.field.Type())
	}
	return err
}

// text writes the setting's value so that set reads it; secrets are masked.
func (s setting) text() string {
	switch v := s.field.Interface().(type) {
	case time.Duration:
		return formatDuration(v)
	case []time.Duration:
		return strings.Join(durationTexts(v), ",")
	default:
		return fmt.Sprint(v)
	}
}

// kind names the setting's type in help texts.
func (s setting) kind() string {
	switch s.field.Interface().(type) {
	case server.Bytes:
		return "size"
	case time.Duration:
		return "duration"
	case []time.Duration:
		return "durations"
	case bool:
		return "bool"
	case int, int64:
		return "number"
	case float64:
		return "number"
	default:
		return "string"
	}
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%q is no duration: a number with its unit, such as 250ms, 30s, 5m, 168h", text)
	}
	return d, nil
}

// parseDurations reads durations with commas between them; no text is none.
func parseDurations(text string) ([]time.Duration, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list []time.Duration
	for part := range strings.SplitSeq(text, ",") {
		d, err := parseDuration(part)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

func parseWhole[T int | int64](text string) (T, error) {
	n, err := strconv.ParseInt(text, 10, strconv.IntSize)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is too large a number", text)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no whole number", text)
	}
	return T(n), nil
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return n, nil
}

// formatDuration writes 168h, not 168h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func durationTexts(list []time.Duration) []string {
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = formatDuration(d)
	}
	return texts
}
