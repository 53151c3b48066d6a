package badger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// Spaces of Badger's keys. Behind keySpace is an encoded offsetstore.Key,
// behind recordSpace the record's space with its length and its key.
const (
	keySpace    = 'k'
	recordSpace = 'r'
	metaSpace   = 'm'
)

// metaKey holds the meta record, rewritten by each commit.
var metaKey = []byte{metaSpace}

// Everything is stored in an envelope: a version byte, content, and a checksum
// over key, version and content.
const envelopeVersion = 1

func seal(key []byte, env []byte) []byte {
	return binary.BigEndian.AppendUint32(env, checksum(key, env))
}

func checksum(key, env []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, env)
}

// unseal gives the content of an envelope.
func unseal(key, env []byte) ([]byte, error) {
	n := len(env) - 4
	if n < 1 || binary.BigEndian.Uint32(env[n:]) != checksum(key, env[:n]) {
		return nil, fmt.Errorf("%w: checksum of %x", offsetstore.ErrCorrupt, key)
	}
	if env[0] != envelopeVersion {
		return nil, fmt.Errorf("%w: envelope version %d of %x", offsetstore.ErrCorrupt, env[0], key)
	}
	return env[1:n:n], nil
}

// sealValue makes the envelope of a value: the slot and generation of its mark
// go before it. at is where the value begins.
func sealValue(key []byte, slot slotRef, v []byte) (env []byte, at int) {
	env = make([]byte, 0, len(v)+20)
	env = append(env, envelopeVersion)
	env = binary.AppendUvarint(env, uint64(slot.index))
	env = binary.AppendUvarint(env, slot.gen)
	at = len(env)
	return seal(key, append(env, v...)), at
}

// openValue reads what sealValue wrote.
func openValue(key, env []byte) (slot slotRef, at int, err error) {
	content, err := unseal(key, env)
	if err != nil {
		return slotRef{}, 0, err
	}
	index, n := binary.Uvarint(content)
	if n <= 0 || index > 1<<32-1 {
		return slotRef{}, 0, fmt.Errorf("%w: slot of %x", offsetstore.ErrCorrupt, key)
	}
	gen, m := binary.Uvarint(content[n:])
	if m <= 0 {
		return slotRef{}, 0, fmt.Errorf("%w: generation of %x", offsetstore.ErrCorrupt, key)
	}
	return slotRef{uint32(index), gen}, 1 + n + m, nil
}

func sealRecord(key, v []byte) []byte {
	env := make([]byte, 0, len(v)+5)
	return seal(key, append(append(env, envelopeVersion), v...))
}

// meta is what each commit says of the whole store.
type meta struct {
	// seq numbers the commits.
	seq uint64
	// count and sum tell what is stored: how many pairs and the sum of their
	// hashes. A commit that Badger lost, or a deleted pair that came back, does
	// not go unseen.
	count, sum uint64
}

func (m meta) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{envelopeVersion}, m.seq)
	b = binary.BigEndian.AppendUint64(b, m.count)
	return seal(metaKey, binary.BigEndian.AppendUint64(b, m.sum))
}

func decodeMeta(b []byte) (meta, error) {
	c, err := unseal(metaKey, b)
	if err != nil {
		return meta{}, err
	}
	if len(c) != 24 {
		return meta{}, fmt.Errorf("%w: meta record of %d bytes", offsetstore.ErrCorrupt, len(c))
	}
	return meta{binary.BigEndian.Uint64(c), binary.BigEndian.Uint64(c[8:]), binary.BigEndian.Uint64(c[16:])}, nil
}

// add and remove count a stored pair in and out.
func (m *meta) add(key, env []byte) {
	m.count++
	m.sum += pairHash(key, env)
}

func (m *meta) remove(key, env []byte) {
	m.count--
	m.sum -= pairHash(key, env)
}

// pairHash needs no key: an envelope's checksum covers it.
func pairHash(key, env []byte) uint64 {
	return xxhash.Sum64(env) + 31*xxhash.Sum64(key)
}
