package remoting

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits of a frame, checked before anything is allocated.
const (
	// MaxFrame is the largest frame, without the four bytes of its length.
	MaxFrame = 64 << 20
	// MaxHeader is the largest header of one.
	MaxHeader = 4 << 20
)

// readStep is how much is read of a frame before more is allocated for it.
const readStep = 1 << 20

// Command is a request or a response.
type Command struct {
	// Code says what is asked, or how it went.
	Code int
	// Opaque ties a response to its request.
	Opaque int32
	// Response tells them apart; OneWay asks for no answer.
	Response, OneWay bool
	// Remark is text for people.
	Remark string
	// Fields are the named arguments or results.
	Fields map[string]string
	// Body is what does not fit there.
	Body []byte
}

// Bits of the flag.
const (
	flagResponse = 1
	flagOneWay   = 2
)

// version tells peers which RocketMQ we are: one that takes standard JSON.
const version = 401

// header is the JSON of a header.
type header struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int32             `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields,omitempty"`
	Serialize string            `json:"serializeTypeCurrentRPC"`
}

// Append appends the frame of a command: its length, the encoding and length
// of its header, the header as JSON, the body. Errors: ErrMalformed where it
// is over a limit.
func (c *Command) Append(dst []byte) ([]byte, error) {
	h := header{Code: c.Code, Language: "GO", Version: version, Opaque: c.Opaque, Remark: c.Remark, ExtFields: c.Fields, Serialize: "JSON"}
	if c.Response {
		h.Flag |= flagResponse
	}
	if c.OneWay {
		h.Flag |= flagOneWay
	}
	text, err := json.Marshal(h)
	if err != nil {
		return dst, fmt.Errorf("header of request %d: %w: %w", c.Code, ErrMalformed, err)
	}
	size := 4 + len(text) + len(c.Body)
	if len(text) > MaxHeader || size > MaxFrame {
		return dst, fmt.Errorf("request %d has a header of %d bytes and a body of %d, at most %d and %d in all are allowed: %w",
			c.Code, len(text), len(c.Body), MaxHeader, MaxFrame, ErrMalformed)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	dst = append(dst, text...)
	return append(dst, c.Body...), nil
}

// Decode reads a frame without the four bytes of its length. The body is a
// part of b. Any bytes give a command or ErrMalformed.
func Decode(b []byte) (Command, error) {
	if len(b) < 4 || len(b) > MaxFrame {
		return Command{}, fmt.Errorf("frame of %d bytes, want 4 to %d: %w", len(b), MaxFrame, ErrMalformed)
	}
	word := binary.BigEndian.Uint32(b)
	size, encoding := int(word&0xffffff), word>>24
	if encoding != 0 {
		return Command{}, fmt.Errorf("header encoding %d, only JSON (0) is understood: %w", encoding, ErrMalformed)
	}
	if size > len(b)-4 || size > MaxHeader {
		return Command{}, fmt.Errorf("header of %d bytes in a frame of %d, at most %d are allowed: %w", size, len(b), MaxHeader, ErrMalformed)
	}
	var h header
	if err := json.Unmarshal(b[4:4+size], &h); err != nil {
		return Command{}, fmt.Errorf("header: %w: %w", ErrMalformed, err)
	}
	return Command{
		Code: h.Code, Opaque: h.Opaque, Response: h.Flag&flagResponse != 0, OneWay: h.Flag&flagOneWay != 0,
		Remark: h.Remark, Fields: h.ExtFields, Body: b[4+size:],
	}, nil
}

// Read reads one frame. The command has memory of its own. Errors are
// ErrMalformed, or what r says.
func Read(r *bufio.Reader) (Command, error) {
	b, err := readFrame(r)
	if err != nil {
		return Command{}, err
	}
	return Decode(b)
}

func readFrame(r *bufio.Reader) ([]byte, error) {
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(word[:]))
	if size < 4 || size > MaxFrame {
		return nil, fmt.Errorf("frame of %d bytes, want 4 to %d: %w", size, MaxFrame, ErrMalformed)
	}
	if size <= readStep {
		b := make([]byte, size)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	// Memory grows with what has come, not with what was announced.
	var buf bytes.Buffer
	buf.Grow(readStep)
	n, err := io.CopyN(&buf, r, size)
	if errors.Is(err, io.EOF) && n < size {
		err = io.ErrUnexpectedEOF
	}
	return buf.Bytes(), err
}
