package kafka

import "encoding/binary"

// partitionOf is the partition that Kafka's Java client chooses for a key
// (org.apache.kafka.common.utils.Utils.murmur2), so that equal keys of all
// programs meet in one.
func partitionOf(key string, partitions int) int {
	return int(murmur2([]byte(key))&0x7fffffff) % partitions
}

// murmur2 is the 32-bit hash of that name by Austin Appleby, with Kafka's seed.
func murmur2(b []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(b))
	for len(b) >= 4 {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
		b = b[4:]
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
