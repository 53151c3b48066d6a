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

// span is where the content of the length-delimited field lies that b begins
// with, if its tag takes one byte; otherwise, or where it does not lie wholly
// within b, to is 0. It is protowire.ConsumeField for the usual case.
func span(b []byte) (from, to int) {
	if len(b) < 2 || b[0] >= 0x80 || b[0]&7 != byte(protowire.BytesType) || b[0] < tagVarint1 {
		return 0, 0
	}
	n, at := uint64(b[1]), 2
	if n >= 0x80 {
		size := 0
		if n, size = protowire.ConsumeVarint(b[1:]); size < 0 {
			return 0, 0
		}
		at = 1 + size
	}
	if n > uint64(len(b)-at) {
		return 0, 0
	}
	return at, at + int(n)
}

// varint reads the varint field that b begins with, if it has that tag, of one
// byte, and a value of whatever length; otherwise n is 0.
func varint(b []byte, tag byte) (v uint64, n int) {
	if len(b) < 2 || b[0] != tag {
		return 0, 0
	}
	if b[1] < 0x80 {
		return uint64(b[1]), 2
	}
	v, size := protowire.ConsumeVarint(b[1:])
	if size < 0 {
		return 0, 0
	}
	return v, 1 + size
}

// skip is the length of the field that b begins with; below 0: why there is none,
// as protowire says it.
func skip(b []byte) int {
	if _, to := span(b); to > 0 {
		return to
	}
	if len(b) >= 2 && b[0] < 0x80 && b[0] >= tagVarint1 && b[0]&7 == byte(protowire.VarintType) && b[1] < 0x80 {
		return 2
	}
	_, _, n := protowire.ConsumeField(b)
	return n
}
