package storagetest

import (
	"encoding/binary"
	"fmt"
)

// Frame builds a binary EventMesh frame of type EVENT with the attributes
// name, value, name, value, … It checks no limits, so that tests can go
// beyond them.
func Frame(data []byte, attributes ...string) []byte {
	f := []byte{0xEF, 1, 3, 0, 0, 0, 0, 0}
	f = binary.BigEndian.AppendUint16(f, uint16(len(attributes)/2))
	f = binary.BigEndian.AppendUint32(f, uint32(len(data)))
	for i, s := range attributes {
		if i%2 == 0 {
			f = binary.BigEndian.AppendUint16(f, uint16(len(s)))
		} else {
			f = binary.BigEndian.AppendUint32(f, uint32(len(s)))
		}
		f = append(f, s...)
	}
	return append(f, data...)
}

// numbered builds the frame of event n of a writer.
func numbered(writer string, n int) []byte {
	id := fmt.Sprintf("%s-%d", writer, n)
	return Frame([]byte("data of "+id), "id", id, "source", "storagetest", "type", "test")
}

// sized builds a frame of exactly size bytes, which are 64 or more.
func sized(id string, size int) []byte {
	head := Frame(nil, "id", id)
	data := make([]byte, size-len(head))
	for i := range data {
		data[i] = byte(i * 31)
	}
	return Frame(data, "id", id)
}
