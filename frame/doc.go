// Package frame is the binary EventMesh frame: the form in which every event
// stands in every log.
//
// It holds four things, all pure functions over bytes:
//
//   - the codec: [Append], [Decode], and [Parse], which validates a frame in
//     place and gives a [View] of it without copying;
//   - the transcoders between stored frame bytes and the protobuf wire bytes of
//     ackmesh.v1.EventMeshFrame, which build no map: [AppendFromProto] on the way
//     in, [AppendProto] on the way out;
//   - the mapping to and from CloudEvents 1.0: [FromCloudEventJSON],
//     [AppendJSON], and [FromRaw] for bodies that other programs wrote;
//   - [Restamp], which copies a stored frame with the mesh's own attributes
//     taken off and new ones put on.
//
// # Layout
//
// All integers are big-endian.
//
//	0  magic     u8   0xEF
//	1  version   u8   1
//	2  type      u8   1 STREAM_REQ, 2 STREAM_CHUNK, 3 EVENT
//	3  flags     u8   1 done, 2 has error, 4 has meta
//	4  seq       u32
//	8  keyCount  u16  at most 64
//	10 dataLen   u32  at most 8 MiB
//	14 keyCount × (nameLen u16, name, valueLen u32, value)
//	.. data, dataLen bytes, up to the last byte of the frame
//
// Names are at most 256 bytes, values at most 4096, both UTF-8; no name occurs
// twice. Flag bits without a meaning yet are kept as they are.
//
// # Trust
//
// Decoding is total: any bytes give a frame or an error, nothing panics, and
// every limit is checked before anything is allocated. What a publisher sends is
// checked more strictly than what is read from a log: a publisher may use only
// legal CloudEvents names, at most 56 attributes, and none of the names that
// only the mesh sets. What already is in a log is never dropped for its form.
//
// Nothing in the package keeps state, starts a goroutine, or reads a clock; all
// functions may be called concurrently.
package frame
