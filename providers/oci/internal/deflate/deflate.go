// Package deflate compresses blocks to the deflate format (RFC 1951), each block for itself and each alike on every machine.
//
// It has one level, made for pushing root file systems: as small as klauspost/compress/flate makes them at its level 1, for
// a fifth less CPU. What makes the difference: matches are looked for as snappy does (three positions at a time, a hash of
// six bytes), literals are counted and written as runs and not as single tokens, and a whole block has one Huffman code.
package deflate

import (
	"encoding/binary"
	"math/bits"
)

const (
	// MaxBlock is how many bytes Block takes at most.
	MaxBlock = 256 << 10

	hashBits    = 13
	maxDistance = 32 << 10
	maxMatch    = 258
	// margin keeps loads of eight bytes, one position ahead of the last one that is tried, within the block.
	margin = 16
)

// sequence is a run of literals and the match that follows it.
type sequence struct {
	literals uint32
	distance uint16 // less 1
	length   uint16 // 0: no match
}

// Encoder compresses blocks. The zero Encoder is ready to use, by one goroutine at a time; it can be used again.
type Encoder struct {
	table     [1 << hashBits]uint32 // last position of each hash
	sequences []sequence
	lengths   [numLiterals]uint32 // how often which symbol occurs
	distances [numDistances]uint32
	bitWriter
}

// Block appends to dst what src becomes, and returns dst. It ends on a byte and is not the last of its stream, which Final
// is. src has MaxBlock bytes at most.
func (e *Encoder) Block(dst, src []byte) []byte {
	if len(src) > MaxBlock {
		panic("deflate: block is too large")
	}
	e.bitWriter = bitWriter{out: dst}
	if len(src) > 0 {
		e.find(src)
		e.count(src)
		e.write(src)
	}
	e.stored(nil) // this is what ends on a byte
	return e.out
}

// Final is an empty last block.
func Final() []byte { return []byte{1, 0, 0, 0xff, 0xff} }

func load32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// hash is of the first six bytes of v.
func hash(v uint64) uint32 { return uint32(v << 16 * 227718039650203 >> (64 - hashBits)) }

// find cuts src into sequences, and counts the symbols of their matches.
func (e *Encoder) find(src []byte) {
	clear(e.table[:])
	clear(e.lengths[:])
	clear(e.distances[:])
	e.sequences = e.sequences[:0]
	var (
		table = &e.table
		limit = len(src) - margin
		done  = 0 // all before it is in sequences
		s     = 1
		at    int // where the match is from
	)
	for s < limit {
		// Look for four bytes that have been there.
		v := load64(src, s)
		for {
			h0, h1, h2 := hash(v), hash(v>>8), hash(v>>16)
			at0, at1 := int(table[h0]), int(table[h1])
			table[h0], table[h1] = uint32(s), uint32(s+1)
			if uint32(v) == load32(src, at0) && s-at0 <= maxDistance {
				at = at0
				break
			}
			at2 := int(table[h2])
			table[h2] = uint32(s + 2)
			if uint32(v>>8) == load32(src, at1) && s+1-at1 <= maxDistance {
				s, at = s+1, at1
				break
			}
			if uint32(v>>16) == load32(src, at2) && s+2-at2 <= maxDistance {
				s, at = s+2, at2
				break
			}
			// The longer there was nothing, the larger the steps.
			s += (s-done)>>6 + 4
			if s > limit {
				e.rest(src, done)
				return
			}
			v = load64(src, s)
		}
		for at > 0 && s > done && src[at-1] == src[s-1] {
			at--
			s--
		}
		for {
			begin, distance := s, s-at
			s, at = s+4, at+4
			for s <= len(src)-8 {
				if x := load64(src, s) ^ load64(src, at); x != 0 {
					s += bits.TrailingZeros64(x) >> 3
					break
				}
				s, at = s+8, at+8
			}
			e.match(begin-done, distance, s-begin)
			done = s
			if s >= limit {
				e.rest(src, done)
				return
			}
			// Another match often follows at once.
			v := load64(src, s-2)
			h0, h2 := hash(v), hash(v>>16)
			at = int(table[h2])
			table[h0], table[h2] = uint32(s-2), uint32(s)
			if uint32(v>>16) != load32(src, at) || s-at > maxDistance {
				s++
				break
			}
		}
	}
	e.rest(src, done)
}

// match adds a sequence, or several where the match is longer than the format knows.
func (e *Encoder) match(literals, distance, length int) {
	code := distanceCode(uint32(distance - 1))
	for length > 0 {
		n := min(length, maxMatch)
		if left := length - n; left > 0 && left < 3 {
			n = length - 3
		}
		e.sequences = append(e.sequences, sequence{uint32(literals), uint16(distance - 1), uint16(n)})
		e.lengths[endOfBlock+1+int(lengthCodes[n])]++
		e.distances[code]++
		literals, length = 0, length-n
	}
}

// rest adds the literals from done on.
func (e *Encoder) rest(src []byte, done int) {
	if done < len(src) {
		e.sequences = append(e.sequences, sequence{literals: uint32(len(src) - done)})
	}
}

// count counts the literals, in four tables: to count the same byte twice in a row in one would wait for the first.
func (e *Encoder) count(src []byte) {
	var c [4][256]uint32
	for _, q := range e.sequences {
		run := src[:q.literals]
		src = src[int(q.literals)+int(q.length):]
		for len(run) >= 4 {
			c[0][run[0]]++
			c[1][run[1]]++
			c[2][run[2]]++
			c[3][run[3]]++
			run = run[4:]
		}
		for _, b := range run {
			c[0][b]++
		}
	}
	for i := range 256 {
		e.lengths[i] = c[0][i] + c[1][i] + c[2][i] + c[3][i]
	}
	e.lengths[endOfBlock] = 1
}

// write writes the sequences with the best Huffman codes for them, or src as it is where that is shorter.
func (e *Encoder) write(src []byte) {
	var literals [numLiterals]uint8
	var distances [numDistances]uint8
	codeLengths(literals[:], e.lengths[:], maxCode)
	codeLengths(distances[:], e.distances[:], maxCode)
	size := uint64(0) // in bits
	for i, n := range e.lengths {
		size += uint64(n) * uint64(literals[i]+literalExtra(i))
	}
	for i, n := range e.distances {
		size += uint64(n) * uint64(distances[i]+distanceExtra(i))
	}
	const maxHeader = 320 // bytes, with some room for the writer
	if size/8+maxHeader >= uint64(len(src)) {
		for len(src) > 0 {
			n := min(len(src), maxStored)
			e.stored(src[:n])
			src = src[n:]
		}
		return
	}
	e.grow(int(size/8) + 2*maxHeader)
	e.header(literals[:], distances[:])

	// All that one look-up gives: the bits, and above them how many.
	const shift = 24
	var literal [256]uint32
	var length [maxMatch + 1]uint32
	codes := canonical(literals[:])
	for i := range literal {
		literal[i] = codes[i].bits | uint32(codes[i].n)<<shift
	}
	for n := 3; n <= maxMatch; n++ {
		c := codes[endOfBlock+1+int(lengthCodes[n])]
		extra := literalExtra(endOfBlock + 1 + int(lengthCodes[n]))
		length[n] = c.bits | uint32(n-int(lengthBases[lengthCodes[n]]))<<c.n | uint32(c.n+extra)<<shift
	}
	far := canonical(distances[:])

	// The state of the writer in registers. Between two flushes at most 7 bits stay, and 57 have room.
	out, w, acc, n := e.out[:cap(e.out)], len(e.out), e.acc, e.n
	for _, q := range e.sequences {
		run := src[:q.literals]
		src = src[int(q.literals)+int(q.length):]
		for len(run) >= 3 {
			a, b, c := literal[run[0]], literal[run[1]], literal[run[2]]
			run = run[3:]
			acc |= uint64(a&(1<<shift-1)) << (n & 63)
			n += uint(a >> shift)
			acc |= uint64(b&(1<<shift-1)) << (n & 63)
			n += uint(b >> shift)
			acc |= uint64(c&(1<<shift-1)) << (n & 63)
			n += uint(c >> shift)
			binary.LittleEndian.PutUint64(out[w:], acc)
			w += int(n >> 3)
			acc >>= n &^ 7 & 63
			n &= 7
		}
		for _, b := range run {
			a := literal[b]
			acc |= uint64(a&(1<<shift-1)) << (n & 63)
			n += uint(a >> shift)
		}
		binary.LittleEndian.PutUint64(out[w:], acc)
		w += int(n >> 3)
		acc >>= n &^ 7 & 63
		n &= 7
		if q.length == 0 {
			continue
		}
		a := length[q.length]
		acc |= uint64(a&(1<<shift-1)) << (n & 63)
		n += uint(a >> shift)
		code := distanceCode(uint32(q.distance))
		c := far[code]
		acc |= uint64(c.bits) << (n & 63)
		n += uint(c.n)
		extra := uint(distanceExtra(int(code)))
		acc |= uint64(uint32(q.distance)&(1<<extra-1)) << (n & 63)
		n += extra
		binary.LittleEndian.PutUint64(out[w:], acc)
		w += int(n >> 3)
		acc >>= n &^ 7 & 63
		n &= 7
	}
	e.out, e.acc, e.n = out[:w], acc, n
	e.bits(codes[endOfBlock].bits, uint(codes[endOfBlock].n))
}
