package deflate

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	klauspost "github.com/klauspost/compress/flate"
)

// compress makes a stream of blocks of the given size.
func compress(e *Encoder, b []byte, size int) []byte {
	var out []byte
	for len(b) > 0 {
		n := min(len(b), size)
		out = e.Block(out, b[:n])
		b = b[n:]
	}
	return append(out, Final()...)
}

// inflate demands that the stream is b to two decoders, and that nothing follows it.
func inflate(t testing.TB, name string, stream, b []byte) {
	t.Helper()
	for decoder, open := range map[string]func(io.Reader) io.ReadCloser{"go": flate.NewReader, "klauspost": klauspost.NewReader} {
		r := bytes.NewReader(stream)
		got, err := io.ReadAll(open(r))
		if err != nil || !bytes.Equal(got, b) || r.Len() != 0 {
			t.Errorf("%s, %s: %d of %d bytes come back, %d are left: %v", name, decoder, len(got), len(b), r.Len(), err)
		}
	}
}

func noise(n int, alphabet uint32) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32N(alphabet))
	}
	return b
}

// skewed has the bytes 0, 1, 2, ... as often as the Fibonacci numbers say, which makes the deepest tree there is: deeper than
// a code may be.
func skewed() []byte {
	var b []byte
	for i, a, c := 0, 1, 1; len(b)+a < MaxBlock; i, a, c = i+1, c, a+c {
		b = append(b, bytes.Repeat([]byte{byte(i)}, a)...)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
	return b
}

func samples() map[string][]byte {
	text := []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 3000))
	far := append(noise(maxDistance, 256), noise(maxDistance, 256)...)
	m := map[string][]byte{
		"nothing": nil, "one byte": {7}, "zeros": make([]byte, 3*MaxBlock+1), "text": text, "noise": noise(MaxBlock, 256), "few symbols": noise(MaxBlock+100, 3),
		"one of two": noise(5000, 2), "as far as it goes": far, "too far": append(append(noise(maxDistance, 256), 1), noise(maxDistance, 256)...), "skewed": skewed(),
		"text in noise": append(append(noise(100_000, 256), text...), noise(70_000, 250)...),
	}
	for n := range 40 {
		m[fmt.Sprintf("%d zeros", n)] = make([]byte, n)
		m[fmt.Sprintf("%d bytes of text", n)] = text[:n]
	}
	for n := 255; n < 270; n++ { // matches around the longest
		m[fmt.Sprintf("a match of %d", n)] = bytes.Join([][]byte{noise(n, 256), {1}, noise(n, 256), noise(30, 256)}, nil)
	}
	return m
}

func TestInflate(t *testing.T) {
	var e Encoder // the same for all: nothing of one block may be in the next
	for name, b := range samples() {
		for _, size := range []int{MaxBlock, 1000} {
			stream := compress(&e, b, size)
			inflate(t, name, stream, b)
			if most := len(b) + len(b)/size*20 + len(b)/maxStored*5 + 30; len(stream) > most {
				t.Errorf("%s: %d bytes become %d", name, len(b), len(stream))
			}
			if !bytes.Equal(stream, compress(new(Encoder), b, size)) {
				t.Errorf("%s: another encoder makes something else", name)
			}
		}
	}
	if n := len(compress(&e, samples()["as far as it goes"], MaxBlock)); n > maxDistance+1000 {
		t.Errorf("what is %d bytes back is not found: %d", maxDistance, n)
	}
	if n := len(compress(&e, make([]byte, MaxBlock), MaxBlock)); n > 1000 {
		t.Errorf("%d zeros become %d bytes", MaxBlock, n)
	}
}

// The output is in the digest of every image that was ever pushed.
func TestNothingChanges(t *testing.T) {
	const golden = "6d706545c50da0eeee813b887eb3b34c"
	h := sha256.New()
	for _, name := range []string{"text", "noise", "few symbols", "zeros", "skewed", "text in noise"} {
		h.Write(compress(new(Encoder), samples()[name], MaxBlock))
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)[:16]); got != golden {
		t.Errorf("%s, want %s", got, golden)
	}
}

func FuzzInflate(f *testing.F) {
	for _, b := range samples() {
		if len(b) < 10_000 {
			f.Add(b, uint16(300))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		var e Encoder
		inflate(t, "fuzz", compress(&e, b, int(size)+1), b)
		// Repeated at some distance there is more to find.
		again := bytes.Join([][]byte{b, b[len(b)/2:], b}, nil)
		inflate(t, "again", compress(&e, again, MaxBlock), again)
	})
}

func BenchmarkBlock(b *testing.B) {
	src := bytes.Join([][]byte{noise(MaxBlock/4, 256), noise(MaxBlock/4, 40), samples()["text"]}, nil)
	src = src[:min(len(src), MaxBlock)]
	b.SetBytes(int64(len(src)))
	var e Encoder
	var out []byte
	for b.Loop() {
		out = e.Block(out[:0], src)
	}
}
