package deflate

import (
	"math/bits"
	"slices"
)

// The alphabets of RFC 1951, section 3.2.5.
const (
	endOfBlock   = 256
	numLiterals  = 286 // and lengths
	numDistances = 30
	maxCode      = 15 // bits of a code
	maxStored    = 65535
)

var lengthCodes, lengthBases = makeLengths()

// makeLengths gives the code of each length, counted from the first one, and the least length of each code.
func makeLengths() (codes [maxMatch + 1]uint8, bases [29]uint16) {
	length := 3
	for code := range 28 {
		bases[code] = uint16(length)
		for range 1 << literalExtra(endOfBlock+1+code) {
			codes[length] = uint8(code)
			length++
		}
	}
	codes[maxMatch], bases[28] = 28, maxMatch // has a code of its own
	return codes, bases
}

// literalExtra is how many bits follow the code of a length; none follow that of a literal.
func literalExtra(symbol int) uint8 {
	if symbol < endOfBlock+1+8 || symbol == numLiterals-1 {
		return 0
	}
	return uint8((symbol-endOfBlock-1)/4 - 1)
}

// distanceCode is the code of a distance less 1.
func distanceCode(d uint32) uint32 {
	if d < 4 {
		return d
	}
	n := uint32(bits.Len32(d)) - 1
	return 2*n + d>>(n-1)&1
}

func distanceExtra(code int) uint8 { return uint8(max(code/2-1, 0)) }

// code is a Huffman code in the order in which its bits are sent.
type code struct {
	bits uint32
	n    uint8
}

// canonical makes the codes of the given lengths (RFC 1951, section 3.2.2).
func canonical(lengths []uint8) (codes [numLiterals]code) {
	var count, next [maxCode + 1]uint32
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	for n := 1; n <= maxCode; n++ {
		next[n] = (next[n-1] + count[n-1]) << 1
	}
	for i, n := range lengths {
		if n > 0 {
			codes[i] = code{uint32(bits.Reverse16(uint16(next[n])) >> (16 - n)), n}
			next[n]++
		}
	}
	return codes
}

// codeLengths sets the length of the code of each symbol, at most limit bits, for symbols that occur so often. It sets 0 for
// those that don't occur. Of a whole code there is no bit too much or too few, as decoders demand.
func codeLengths(lengths []uint8, frequencies []uint32, limit int) {
	var buf [numLiterals]uint64
	symbols := buf[:0] // the rarest first: frequency, symbol
	for i, f := range frequencies {
		if f > 0 {
			symbols = append(symbols, uint64(f)<<16|uint64(i))
		}
	}
	clear(lengths)
	switch len(symbols) {
	case 0:
		lengths[0] = 1 // decoders want one code
		return
	case 1:
		lengths[symbols[0]&0xffff] = 1
		return
	}
	slices.Sort(symbols)

	// A. Moffat, J. Katajainen: In-place calculation of minimum-redundancy codes. The array holds frequencies, then
	// parents, then depths.
	n := len(symbols)
	var a [numLiterals]uint32
	for i, s := range symbols {
		a[i] = uint32(s >> 16)
	}
	leaf, root := 0, 0
	for next := range n - 1 {
		a2 := [2]uint32{}
		for i := range a2 {
			if leaf >= n || root < next && a[root] < a[leaf] {
				a2[i] = a[root]
				a[root] = uint32(next)
				root++
			} else {
				a2[i] = a[leaf]
				leaf++
			}
		}
		a[next] = a2[0] + a2[1]
	}
	a[n-2] = 0
	for next := n - 3; next >= 0; next-- {
		a[next] = a[a[next]] + 1
	}
	// How many leaves there are at each depth; too deep ones come up, and as many others go down as that takes.
	var count [numLiterals + 1]int
	nodes := 1
	for depth, root := uint32(0), n-2; nodes > 0; depth++ {
		inner := 0
		for root >= 0 && a[root] == depth {
			inner++
			root--
		}
		count[min(int(depth), limit)] += nodes - inner
		nodes = 2 * inner
	}
	total := 0
	for l := 1; l <= limit; l++ {
		total += count[l] << (limit - l)
	}
	for ; total > 1<<limit; total-- {
		count[limit]--
		for l := limit - 1; ; l-- {
			if count[l] > 0 {
				count[l]--
				count[l+1] += 2
				break
			}
		}
	}
	i := 0
	for l := limit; l > 0; l-- {
		for range count[l] {
			lengths[symbols[i]&0xffff] = uint8(l)
			i++
		}
	}
}

// bitWriter appends bits to out.
type bitWriter struct {
	out []byte
	acc uint64
	n   uint // bits in acc
}

// bits writes the n lowest bits of v, and leaves at most 7 in acc.
func (w *bitWriter) bits(v uint32, n uint) {
	w.acc |= uint64(v) << w.n
	w.n += n
	for ; w.n >= 8; w.n -= 8 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
	}
}

// grow makes room for n more bytes.
func (w *bitWriter) grow(n int) { w.out = slices.Grow(w.out, n) }

// stored writes a block of at most maxStored bytes as they are.
func (w *bitWriter) stored(b []byte) {
	w.bits(0, 3)
	if w.n > 0 {
		w.bits(0, 8-w.n)
	}
	n := len(b)
	w.out = append(w.out, byte(n), byte(n>>8), byte(^n), byte(^n>>8))
	w.out = append(w.out, b...)
}

// header begins a block with codes of its own (RFC 1951, section 3.2.7).
func (w *bitWriter) header(literals, distances []uint8) {
	for len(literals) > endOfBlock+1 && literals[len(literals)-1] == 0 {
		literals = literals[:len(literals)-1]
	}
	for len(distances) > 1 && distances[len(distances)-1] == 0 {
		distances = distances[:len(distances)-1]
	}
	// The lengths of all codes, repetitions as the symbols 16 to 18 with a number.
	type symbol struct{ s, x uint8 }
	var symbols []symbol
	var frequencies [19]uint32
	add := func(s uint8, x int) {
		symbols = append(symbols, symbol{s, uint8(x)})
		frequencies[s]++
	}
	all := slices.Concat(literals, distances)
	for len(all) > 0 {
		v, n := all[0], 1
		for n < len(all) && all[n] == v {
			n++
		}
		all = all[n:]
		if v != 0 {
			add(v, 0)
			n--
		}
		for n >= 3 {
			switch {
			case v != 0:
				k := min(n, 6)
				add(16, k-3)
				n -= k
			case n < 11:
				add(17, n-3)
				n = 0
			default:
				k := min(n, 138)
				add(18, k-11)
				n -= k
			}
		}
		for ; n > 0; n-- {
			add(v, 0)
		}
	}
	var lengths [19]uint8
	codeLengths(lengths[:], frequencies[:], 7)
	codes := canonical(lengths[:])
	order := []uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	for len(order) > 4 && lengths[order[len(order)-1]] == 0 {
		order = order[:len(order)-1]
	}
	w.bits(0, 1) // not the last
	w.bits(2, 2) // dynamic
	w.bits(uint32(len(literals)-endOfBlock-1), 5)
	w.bits(uint32(len(distances)-1), 5)
	w.bits(uint32(len(order)-4), 4)
	for _, s := range order {
		w.bits(uint32(lengths[s]), 3)
	}
	for _, s := range symbols {
		w.bits(codes[s.s].bits, uint(codes[s.s].n))
		switch s.s {
		case 16:
			w.bits(uint32(s.x), 2)
		case 17:
			w.bits(uint32(s.x), 3)
		case 18:
			w.bits(uint32(s.x), 7)
		}
	}
}
