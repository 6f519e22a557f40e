package image_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"fediversity.eu/yuba/test/image"
)

// Another reader of docker archives must understand what the generator writes, or the tests that use it prove nothing.
func TestOtherReaderReadsEveryLayout(t *testing.T) {
	for name, layout := range image.Layouts() {
		for _, gz := range []bool{false, true} {
			s := image.Spec{Layout: layout, GzipLayer: gz, Labels: map[string]string{"a": "b"}, Files: map[string][]byte{"/etc/x": []byte("y")}}
			b, err := image.Bytes(s)
			if err != nil {
				t.Fatal(err)
			}
			again, err := image.Bytes(s)
			if err != nil || !bytes.Equal(b, again) {
				t.Fatalf("%s: not deterministic (%v)", name, err)
			}
			img, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			cfg, err := img.ConfigFile()
			if err != nil || cfg.Config.Labels["a"] != "b" || len(cfg.RootFS.DiffIDs) != 1 {
				t.Fatalf("%s: config %+v, %v", name, cfg, err)
			}
			layers, err := img.Layers()
			if err != nil || len(layers) != 1 {
				t.Fatalf("%s: %d layers, %v", name, len(layers), err)
			}
			diff, err := layers[0].DiffID()
			if err != nil || diff != cfg.RootFS.DiffIDs[0] {
				t.Fatalf("%s: diff id %s, config says %s, %v", name, diff, cfg.RootFS.DiffIDs[0], err)
			}
		}
	}
}
