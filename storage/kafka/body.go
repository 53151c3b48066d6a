package kafka

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// pack appends records to a batch as frames, up to so many records and bytes,
// one at least, and tells how many it took.
func (l *Log) pack(batch *storage.Batch, recs []rec, maxRecords, maxBytes int) (n int, err error) {
	batch.Buf = slices.Grow(batch.Buf, packSize(recs, maxRecords, maxBytes))
	batch.Records = slices.Grow(batch.Records, min(len(recs), maxRecords))
	size := 0
	for n < len(recs) && n < maxRecords {
		at := len(batch.Buf)
		var raw *frame.Raw
		if batch.Buf, raw, err = appendFrame(batch.Buf, &recs[n]); err != nil {
			return 0, err
		}
		end := len(batch.Buf)
		if size += end - at; n > 0 && size > maxBytes {
			batch.Buf = batch.Buf[:at]
			break
		}
		if raw != nil {
			l.opts.Observe.Foreign(raw.Form.String(), raw.LeftOut, raw.DataLeftOut)
		}
		batch.Records = append(batch.Records, recs[n].record(batch.Buf[at:end:end]))
		n++
	}
	rebase(batch)
	return n, nil
}

// record is the record as Poll returns it.
func (r *rec) record(frame []byte) storage.Record {
	return storage.Record{Offset: r.offset, Time: r.time, Frame: frame, LeaderEpoch: r.epoch}
}

// packSize is how many bytes the records take where they are frames.
func packSize(recs []rec, maxRecords, maxBytes int) (size int) {
	for i := range recs[:min(len(recs), maxRecords)] {
		if size += len(recs[i].value); size > maxBytes && i > 0 {
			break
		}
	}
	return size
}

// rebase makes the frames parts of Buf again, which may have moved.
func rebase(batch *storage.Batch) {
	at := 0
	for i := range batch.Records {
		end := at + len(batch.Records[i].Frame)
		batch.Records[i].Frame = batch.Buf[at:end:end]
		at = end
	}
}

// appendFrame appends a record as a frame, whatever form it has; raw says what
// became of one that was no frame.
func appendFrame(dst []byte, r *rec) (out []byte, raw *frame.Raw, err error) {
	if _, err := frame.Parse(r.value); err == nil {
		return append(dst, r.value...), nil, nil
	}
	headers := make([]frame.Header, len(r.headers))
	for i, h := range r.headers {
		headers[i] = frame.Header{Name: string(h.Key), Value: h.Value}
	}
	made := frame.FromRaw(r.value, headers, r.key)
	out, err = frame.Append(dst, &made.Frame)
	if err != nil { // FromRaw promises that there is none
		return dst, nil, fmt.Errorf("kafka: record %d as a frame: %w", r.offset, err)
	}
	return out, &made, nil
}

// Names of the CloudEvents Kafka binding 1.0.2, binary mode.
const (
	headerPrefix      = "ce_"
	headerContentType = "content-type"
	structuredType    = "application/cloudevents"
)

// message makes what is written of an event.
func (f Format) message(e storage.Event) (value []byte, headers []sarama.RecordHeader) {
	if f != FormatCloudEvents {
		return e.Frame, nil
	}
	v := frame.View(e.Frame)
	if !binaryModeKeeps(v) {
		return e.Frame, nil
	}
	headers = make([]sarama.RecordHeader, 0, v.Count()+1)
	version := []byte("1.0")
	for name, val := range v.Attributes() {
		switch string(name) {
		case frame.AttrSpecVersion:
			version = val
		case frame.AttrDataContentType:
			headers = append(headers, sarama.RecordHeader{Key: []byte(headerContentType), Value: val})
		default:
			headers = append(headers, sarama.RecordHeader{Key: append([]byte(headerPrefix), name...), Value: val})
		}
	}
	headers = append(headers, sarama.RecordHeader{Key: []byte(headerPrefix + frame.AttrSpecVersion), Value: version})
	return v.Data(), headers
}

// binaryModeKeeps tells whether a frame is read back as it was when it is
// written in the binary mode of CloudEvents.
func binaryModeKeeps(v frame.View) bool {
	if v.Type() != frame.Event || v.Flags() != 0 || v.Seq() != 0 {
		return false
	}
	for name, val := range v.Attributes() {
		isType := string(name) == frame.AttrDataContentType
		if len(name) == 0 || isType && len(val) >= len(structuredType) && strings.EqualFold(string(val[:len(structuredType)]), structuredType) {
			return false
		}
	}
	// Data that is a frame itself would be taken for the event.
	return !bytes.HasPrefix(v.Data(), []byte{0xEF, 1})
}
