package rocketmq5

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/frame"
)

// appendFrame appends a message as a frame, whatever form its body has; raw says
// what became of one that was no frame.
func appendFrame(dst []byte, m *v2.Message) (out []byte, raw *frame.Raw, err error) {
	sys := m.GetSystemProperties()
	var headers []frame.Header
	body := m.GetBody()
	if sys.GetBodyEncoding() == v2.Encoding_GZIP {
		body = decompress(body)
	}
	if _, err := frame.Parse(body); err != nil {
		for name, val := range m.GetUserProperties() {
			headers = append(headers, frame.Header{Name: name, Value: []byte(val)})
		}
	}
	return appendBody(dst, body, headers, []byte(sys.GetMessageGroup()))
}

func appendBody(dst, body []byte, headers []frame.Header, key []byte) (out []byte, raw *frame.Raw, err error) {
	if _, err := frame.Parse(body); err == nil {
		return append(dst, body...), nil, nil
	}
	made := frame.FromRaw(body, headers, key)
	out, err = frame.Append(dst, &made.Frame)
	if err != nil { // FromRaw promises that there is none
		return dst, nil, fmt.Errorf("body of %d bytes as a frame: %w", len(body), err)
	}
	return out, &made, nil
}

// maxInflated bounds what a compressed body may become.
const maxInflated = frame.MaxFrameSize

// decompress is a body as it was before its producer compressed it. Clients of
// the remoting protocol use zlib, which proxies call gzip too. One that is
// neither, or grows too large, stays as it is.
func decompress(body []byte) []byte {
	var r io.Reader
	var err error
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		r, err = gzip.NewReader(bytes.NewReader(body))
	} else {
		r, err = zlib.NewReader(bytes.NewReader(body))
	}
	if err != nil {
		return body
	}
	out, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err != nil || len(out) > maxInflated {
		return body
	}
	return out
}
