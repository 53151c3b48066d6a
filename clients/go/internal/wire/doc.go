// Package wire reads and writes the protobuf wire form of the hot messages of
// ackmesh.v1 without generated types: events on the way out, deliveries on the
// way in, acks and publish answers. Rare messages use the generated code.
//
// All functions are pure and total: any input bytes give a result or an error,
// nothing panics, and nothing is allocated in proportion to a declared length.
// What is returned as []byte is part of the input.
package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is wrapped by every error of this package that is about received
// bytes.
var ErrMalformed = errors.New("malformed message")

func malformed(what string, code int) error {
	return fmt.Errorf("%w: %s: %w", ErrMalformed, what, protowire.ParseError(code))
}

func malformedText(what string) error {
	return fmt.Errorf("%w: %s", ErrMalformed, what)
}

// Tags, field number and wire type, of the fields written or read here. All fit
// one byte.
const (
	tagVarint1 = 1<<3 | byte(protowire.VarintType)
	tagBytes1  = 1<<3 | byte(protowire.BytesType)
	tagBytes2  = 2<<3 | byte(protowire.BytesType)
	tagBytes3  = 3<<3 | byte(protowire.BytesType)
	tagBytes4  = 4<<3 | byte(protowire.BytesType)
	tagBytes5  = 5<<3 | byte(protowire.BytesType)
	tagVarint2 = 2<<3 | byte(protowire.VarintType)
	tagVarint3 = 3<<3 | byte(protowire.VarintType)
	tagVarint4 = 4<<3 | byte(protowire.VarintType)
	tagFixed1  = 1<<3 | byte(protowire.Fixed64Type)
	tagFixed2  = 2<<3 | byte(protowire.Fixed64Type)
)

// appendLen appends a length as a varint; most are below 128.
func appendLen(dst []byte, n int) []byte {
	if n < 1<<7 {
		return append(dst, byte(n))
	}
	return protowire.AppendVarint(dst, uint64(n))
}

// lenSize is how many bytes appendLen appends.
func lenSize(n int) int {
	if n < 1<<7 {
		return 1
	}
	return protowire.SizeVarint(uint64(n))
}
