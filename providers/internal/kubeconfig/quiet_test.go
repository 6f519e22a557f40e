package kubeconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	_ "fediversity.eu/yuba/providers/internal/kubeconfig"
	"k8s.io/klog/v2"
)

// What client-go has to say of itself is not on the user's terminal.
func TestQuiet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	klog.ErrorS(errors.New("no such file"), "unable to rotate token")
	klog.Flush()
	os.Stderr = stderr
	if said, err := os.ReadFile(path); err != nil || len(said) > 0 {
		t.Errorf("%v, client-go wrote: %s", err, said)
	}
}
