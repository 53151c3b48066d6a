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

// pack puts records of a chunk's first piece into an empty batch as frames, up to
// so many records and bytes, one at least, and takes them out of the chunk.
func (l *Log) pack(batch *storage.Batch, c *chunk, maxRecords, maxBytes int) error {
	p := c.pieces[0]
	if c.taken == 0 && p.becomes(maxRecords, maxBytes) {
		c.take(len(p.recs))
		swap(batch, p)
		return nil
	}
	recs := p.recs[c.taken:]
	batch.Buf = slices.Grow(batch.Buf, p.packSize(recs, maxRecords, maxBytes))
	batch.Records = slices.Grow(batch.Records, min(len(recs), maxRecords))
	n, size := 0, 0
	for n < len(recs) && n < maxRecords {
		at := len(batch.Buf)
		out, raw, err := p.appendFrame(batch.Buf, &recs[n])
		if err != nil {
			return err
		}
		end := len(out)
		if size += end - at; n > 0 && size > maxBytes {
			break
		}
		if batch.Buf = out; raw != nil {
			l.opts.Observe.Foreign(raw.Form.String(), raw.LeftOut, raw.DataLeftOut)
		}
		batch.Records = append(batch.Records, recs[n].record(batch.Buf[at:end:end]))
		n++
	}
	rebase(batch)
	if c.take(n); n == len(recs) {
		p.free()
	}
	return nil
}

// swap makes a piece the batch: the batch gets the piece's memory, and the piece
// that of the batch.
func swap(batch *storage.Batch, p *piece) {
	batch.Records = slices.Grow(batch.Records, len(p.recs))
	for i := range p.recs {
		batch.Records = append(batch.Records, p.recs[i].record(p.of(p.recs[i].value)))
	}
	batch.Buf, p.buf = p.buf, batch.Buf
	p.free()
}

// record is the record as Poll returns it.
func (r *rec) record(frame []byte) storage.Record {
	return storage.Record{Offset: r.offset, Time: r.time, Frame: frame, LeaderEpoch: r.epoch, Plain: r.plain}
}

// packSize is how many bytes the records take where they are frames.
func (p *piece) packSize(recs []rec, maxRecords, maxBytes int) (size int) {
	for i := range recs[:min(len(recs), maxRecords)] {
		if size += int(max(recs[i].value.n, 0)); size > maxBytes && i > 0 {
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
func (p *piece) appendFrame(dst []byte, r *rec) (out []byte, raw *frame.Raw, err error) {
	value := p.of(r.value)
	if r.framed {
		return append(dst, value...), nil, nil
	}
	made := frame.FromRaw(value, p.headersOf(r), p.of(r.key))
	out, err = frame.Append(dst, &made.Frame)
	if err != nil { // FromRaw promises that there is none
		return dst, nil, fmt.Errorf("kafka: record %d as a frame: %w", r.offset, err)
	}
	return out, &made, nil
}

// headersOf lists the headers of a record.
func (p *piece) headersOf(r *rec) (list []frame.Header) {
	at, end := int(r.headers.at), int(r.headers.at+r.headers.n)
	for c := (cursor{b: p.buf[:end], at: at, ok: true}); c.at < end && c.ok; {
		name, value := c.bytes(), c.bytes()
		list = append(list, frame.Header{Name: string(p.of(name)), Value: p.of(value)})
	}
	return list
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
