package dispatch

import (
	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/storage"
)

// encodings keeps what the deliveries of a chunk's records look like on the
// wire, for all but the first subscriber of them: only the ids differ. It fills
// as they are encoded, and lives as long as the chunk. It belongs to a loop.
type encodings struct {
	blocks []*[]byte  // from the pool, filled one after the other
	at     []encoding // of each record of the chunk
}

// encoding is where a delivery is, and in it the eight bytes of its id. n = 0:
// it was not encoded yet.
type encoding struct{ block, from, n, id int32 }

// encodingsBlock is the largest block. A larger delivery is encoded each time.
const encodingsBlock = 64 << 10

// get returns the delivery of record i, nil if it is not there, and where its
// id is in it.
func (c *encodings) get(i int) (delivery []byte, id int) {
	if i >= len(c.at) || c.at[i].n == 0 {
		return nil, 0
	}
	e := c.at[i]
	return (*c.blocks[e.block])[e.from : e.from+e.n], int(e.id)
}

// put keeps a copy of the delivery of record i of the batch, and returns by how
// many bytes the memory has grown.
func (c *encodings) put(i int, batch *storage.Batch, delivery []byte, id int) (grown int) {
	if len(delivery) > encodingsBlock {
		return 0
	}
	if c.at == nil {
		c.at = make([]encoding, len(batch.Records))
	}
	last := len(c.blocks) - 1
	if last < 0 || cap(*c.blocks[last])-len(*c.blocks[last]) < len(delivery) {
		rest := len(batch.Buf) + len(batch.Records)*deliveryHeaderMax
		b := mem.DefaultBufferPool().Get(min(max(rest, len(delivery)), encodingsBlock))
		*b = (*b)[:0]
		c.blocks, last, grown = append(c.blocks, b), last+1, cap(*b)
	}
	b := c.blocks[last]
	c.at[i] = encoding{int32(last), int32(len(*b)), int32(len(delivery)), int32(id)}
	*b = append(*b, delivery...)
	return grown
}

// size is the memory of the blocks.
func (c *encodings) size() (n int) {
	for _, b := range c.blocks {
		n += cap(*b)
	}
	return n
}

// free gives the blocks back.
func (c *encodings) free() {
	for _, b := range c.blocks {
		mem.DefaultBufferPool().Put(b)
	}
	*c = encodings{}
}
