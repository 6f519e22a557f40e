package push

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"fediversity.eu/yuba/providers/oci/internal/deflate"
)

// Compression is how layers are sent that their source does not hold compressed. Each is a fixed recipe: level and block
// size are in the digest of every image that was ever pushed, so changing one gives each tag another digest.
type Compression string

const (
	// Gzip is read by every container runtime. The zero Compression is Gzip.
	Gzip Compression = "gzip"
	// Zstd is smaller and cheaper to unpack; containerd reads it since 1.5 (2021), CRI-O since 1.17.
	Zstd Compression = "zstd"
)

// CheckCompression says what is wrong with the name of a compression.
func CheckCompression(s string) error {
	switch Compression(s) {
	case Gzip, Zstd:
		return nil
	}
	return fmt.Errorf("compression %.40q: want %q or %q", s, Gzip, Zstd)
}

// Blocks are compressed each for itself, in parallel, so the result can't depend on the number of cores. Small ones keep many
// pushes at a time in little memory; gzip, whose window is 32 KiB, loses next to nothing by them.
const (
	gzipBlock = deflate.MaxBlock
	zstdBlock = 1 << 20
)

// format is a Compression at work on one layer. Only block may be called from several goroutines.
type format interface {
	mediaType() types.MediaType
	blockSize() int
	// begin returns what precedes the first block.
	begin() []byte
	// count sees each block once, in order, before it's compressed.
	count(raw []byte)
	// block appends to b.out what raw, a part of b, becomes.
	block(b *block, raw []byte)
	// end returns what follows the last block.
	end() []byte
}

func newFormat(l Layer, c Compression) format {
	switch {
	case l.Blob != nil:
		return &verbatim{l.Blob.MediaType}
	case c == Zstd:
		return newZstd()
	}
	return &gzipFormat{crc: crc32.NewIEEE()}
}

// gzipFormat is one gzip member (RFC 1952).
type gzipFormat struct {
	crc  hash.Hash32
	size uint32
}

func (*gzipFormat) mediaType() types.MediaType { return types.OCILayer }
func (*gzipFormat) blockSize() int             { return gzipBlock }

func (*gzipFormat) begin() []byte {
	// deflate, no flags, no time, fastest, unknown operating system
	return []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}
}

func (f *gzipFormat) count(raw []byte) {
	f.crc.Write(raw)
	f.size += uint32(len(raw))
}

func (*gzipFormat) block(b *block, raw []byte) { b.out = b.encoder.Block(b.out, raw) }

func (f *gzipFormat) end() []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(deflate.Final(), f.crc.Sum32()), f.size)
}

// zstdFormat is a row of zstd frames (RFC 8878), which decoders take for one stream.
type zstdFormat struct{ encoder *zstd.Encoder }

func newZstd() *zstdFormat {
	// Its options are constants, which is all that it could object to.
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(parallel()),
		zstd.WithWindowSize(zstdBlock), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err)
	}
	return &zstdFormat{e}
}

func (*zstdFormat) mediaType() types.MediaType { return types.OCILayerZStd }
func (*zstdFormat) blockSize() int             { return zstdBlock }
func (*zstdFormat) begin() []byte              { return nil }
func (*zstdFormat) count([]byte)               {}
func (*zstdFormat) end() []byte                { return nil }

func (f *zstdFormat) block(b *block, raw []byte) { b.out = f.encoder.EncodeAll(raw, b.out) }

// verbatim passes on what is compressed already.
type verbatim struct{ mt types.MediaType }

func (v *verbatim) mediaType() types.MediaType { return v.mt }
func (*verbatim) blockSize() int               { return gzipBlock }
func (*verbatim) begin() []byte                { return nil }
func (*verbatim) count([]byte)                 {}
func (*verbatim) end() []byte                  { return nil }
func (*verbatim) block(b *block, raw []byte)   { b.out = append(b.out, raw...) }
