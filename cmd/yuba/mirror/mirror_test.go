package mirror_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"fediversity.eu/yuba/cmd/yuba/mirror"
)

func TestMirrorHoldsTheProgramForEachProvider(t *testing.T) {
	dir := t.TempDir()
	providers := []mirror.Provider{
		{Address: "registry.opentofu.org/fediversity/oci", Version: "1.2.3"},
		{Address: "registry.opentofu.org/hashicorp/random", Version: "3.7.2"},
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	platform := runtime.GOOS + "_" + runtime.GOARCH
	want := []string{
		filepath.Join(dir, "registry.opentofu.org/fediversity/oci/1.2.3", platform, "terraform-provider-oci_v1.2.3"),
		filepath.Join(dir, "registry.opentofu.org/hashicorp/random/3.7.2", platform, "terraform-provider-random_v3.7.2"),
	}
	// The second time replaces what the first time left.
	for range 2 {
		got, err := mirror.Write(dir, providers)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("wrote %q, want %q", got, want)
		}
		for i, name := range want {
			if got[i] != name {
				t.Errorf("wrote %q, want %q", got[i], name)
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data, program) {
				t.Errorf("%s is not the program", name)
			}
			if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o111 == 0 {
				t.Errorf("%s cannot be executed", name)
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(name), "*.tmp"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		}
	}
}
