package jitcode

const (
	blockBytes = 64 << 10
	// MaxRecord is the longest record in bytes.
	MaxRecord = blockBytes - 1
)

// place is where a record lies: the number of its block and the offset in it.
type place uint32

func (p place) block() int  { return int(p >> 16) }
func (p place) offset() int { return int(p & 0xffff) }

// records holds bytes in blocks, in the order of their coming. Those of one record lie in one block.
type records struct {
	blocks [][]byte // but for the last, what a block has left did not suffice
}

// add copies b, which has at most MaxRecord bytes.
func (r *records) add(b []byte) place {
	last := len(r.blocks) - 1
	if last < 0 || len(r.blocks[last])+len(b) > blockBytes {
		r.blocks = append(r.blocks, make([]byte, 0, blockBytes))
		last++
	}
	at := place(last<<16 | len(r.blocks[last]))
	r.blocks[last] = append(r.blocks[last], b...)
	return at
}

func (r *records) get(at place, length int) []byte {
	return r.blocks[at.block()][at.offset() : at.offset()+length : at.offset()+length]
}

// compaction moves the records that stay to the front, in the same order, inside the blocks.
type compaction struct {
	r     *records
	block int
	fill  int
}

func (r *records) compact() *compaction { return &compaction{r: r} }

// move takes the next record that stays and returns its new place. That is never behind the old one: with fewer records
// before it, filling blocks in the same order cannot come further.
func (c *compaction) move(at place, length int) place {
	if c.fill+length > blockBytes {
		c.r.blocks[c.block] = c.r.blocks[c.block][:c.fill]
		c.block, c.fill = c.block+1, 0
	}
	to := place(c.block<<16 | c.fill)
	copy(c.r.blocks[c.block][c.fill:blockBytes], c.r.get(at, length))
	c.fill += length
	return to
}

// done gives the blocks that are free now to the garbage collector.
func (c *compaction) done() {
	if len(c.r.blocks) == 0 {
		return
	}
	c.r.blocks[c.block] = c.r.blocks[c.block][:c.fill]
	clear(c.r.blocks[c.block+1:])
	c.r.blocks = c.r.blocks[:c.block+1]
}

func (r *records) bytes() int { return len(r.blocks)*blockBytes + cap(r.blocks)*24 }
