package pods

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// The registry holds the manifest and has lost a layer of it: nothing is
// pushed, and the pull fails on the node alone.
func TestImageThatCannotBePulledIsSetBack(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	group(w, node("a", "one", rootfs(t, systemd257, nil)))
	w.Must(0, "k8s", "apply", "-auto-approve")
	in(t, w, "a", "sh", "-c", "echo kept >/var/lib/kept")
	good, before := w.Get("deployment/a", world.ImagePath), identityOf(t, w, "a")

	loseALayer(t, w.Lab, w.Lab.Push(t, w.Namespace+"/a", "two", lab.Image{Content: w.Namespace}))
	group(w, node("a", "two", rootfs(t, systemd257, map[string]string{"etc/node-version": "two"})))
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	for _, want := range []string{"ImagePull", "set back"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("the failure does not say %q: %v", want, r)
		}
	}
	if got := w.Get("deployment/a", world.ImagePath); got != good {
		t.Errorf("after the rollback a runs %s, want %s", got, good)
	}
	if got := identityOf(t, w, "a"); got != before {
		t.Errorf("after the rollback a is %+v, want %+v", got, before)
	}
	w.Must(2, "k8s", "plan", "-detailed-exitcode")
}

// loseALayer takes the first layer of an image off the disk of the registry.
func loseALayer(t *testing.T, l *lab.Lab, image string) {
	t.Helper()
	blob := func(digest string) string {
		hex := strings.TrimPrefix(digest, "sha256:")
		return filepath.Join(l.Dir, "registry", "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
	}
	_, digest, _ := strings.Cut(image, "@")
	data, err := os.ReadFile(blob(digest))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(data, &manifest); err != nil || len(manifest.Layers) == 0 {
		t.Fatalf("%v: %s", err, data)
	}
	if err := os.Remove(blob(manifest.Layers[0].Digest)); err != nil {
		t.Fatal(err)
	}
}

// On the first deploy there is nothing to set back; once there is a
// provisioner, the next apply goes on.
func TestNoVolumeForTheClaimFailsInTime(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	class := w.Lab.Name(t)
	provisioned := func(provisioner string) {
		w.Lab.Apply(t, "default", `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: `+class+`}
provisioner: `+provisioner+`
volumeBindingMode: WaitForFirstConsumer
`)
	}
	provisioned("example.com/none")
	t.Cleanup(func() { w.Kubectl("delete", "storageclass", class) })
	group(w, node("a", "one", rootfs(t, systemd257, nil)))
	w.Edit(func(g map[string]any) {
		g["storage"] = map[string]any{"size": "1Gi", "class": class}
		g["rolloutTimeout"] = "15s"
	})
	r := w.Must(1, "k8s", "apply", "-auto-approve")
	for _, want := range []string{"a-state", "example.com/none", "no previous image to set back"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("the failure does not say %q: %v", want, r)
		}
	}
	w.Must(2, "k8s", "plan", "-detailed-exitcode")

	w.Edit(func(g map[string]any) {
		g["storage"] = map[string]any{"size": "1Gi", "class": "standard"}
		g["rolloutTimeout"] = "300s"
	})
	w.Must(0, "k8s", "apply", "-auto-approve")
	w.Must(0, "k8s", "plan", "-detailed-exitcode")
}

// The API server can't tell whether anything enforces NetworkPolicy when that
// is no DaemonSet; of the rest a real node tells all.
func TestDoctorFindsNothingMissingOnARealNode(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	group(w, node("a", "one", rootfs(t, systemd257, nil)))
	var answer struct {
		Healthy  bool
		Findings []struct{ Check, Verdict, Message string }
	}
	r := w.Must(0, "k8s", "doctor", "-json")
	if err := json.Unmarshal([]byte(r.Stdout), &answer); err != nil || !answer.Healthy {
		t.Fatalf("%v: %v", err, r)
	}
	seen := 0
	for _, f := range answer.Findings {
		want := "ok"
		if f.Check == "NetworkPolicy" {
			want = "unknown"
		}
		if f.Verdict != want {
			t.Errorf("%s is %s, want %s: %s", f.Check, f.Verdict, want, f.Message)
		}
		seen++
	}
	if seen != 7 {
		t.Errorf("%d findings, want 7: %v", seen, r)
	}
	w.Unchanged()
}
