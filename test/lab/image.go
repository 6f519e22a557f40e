package lab

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"fediversity.eu/yuba/test/image"
)

// What a pod on a fake node does. An image that isn't in the registry gives
// ImagePullBackOff.
const (
	Ready       = "ready"        // it runs and is ready
	NeverReady  = "never-ready"  // it runs, its readiness probe fails
	CrashLoop   = "crash-loop"   // its container ends with code 1 again and again
	ConfigError = "config-error" // its container can't be created: CreateContainerConfigError
	Creating    = "creating"     // its container isn't made; Warning says why
)

// Image is the image of a node. The zero Image becomes a pod that is ready.
type Image struct {
	Behaviour string // default Ready
	Content   string // anything: images of different content differ
	// ReadyAfter and StopAfter are how long the container runs before it is
	// ready, and takes to stop; both are short by default.
	ReadyAfter, StopAfter time.Duration
	// Warning is the event, REASON: MESSAGE, that says why a pod is Creating.
	Warning string
	// FailedUnits are the units, with commas between them, that systemd in the
	// pod calls failed; Jobs those that it is still starting.
	FailedUnits, Jobs string
	Log               string // what the container has written to its log
	// Exec is how commands in the container end: "" they answer, "hang" they
	// don't, "missing" there are none.
	Exec string
}

// labels are those of the image's config.
func (i Image) labels() map[string]string {
	labels := map[string]string{}
	for key, value := range map[string]string{
		"behaviour": i.Behaviour, "warning": i.Warning, "failed-units": i.FailedUnits, "jobs": i.Jobs, "log": i.Log, "exec": i.Exec,
	} {
		if value != "" {
			labels["yuba.test/"+key] = value
		}
	}
	for key, value := range map[string]time.Duration{"ready-after": i.ReadyAfter, "stop-after": i.StopAfter} {
		if value != 0 {
			labels["yuba.test/"+key] = value.String()
		}
	}
	return labels
}

// Archive writes a docker archive of the image to a file that the test's end
// removes.
func Archive(t testing.TB, i Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	err = image.Write(f, image.Spec{Labels: i.labels(), Files: map[string][]byte{"etc/content": []byte(i.Content)}})
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// Push puts an image into the lab's registry, not by the code that is tested,
// and gives its name with the digest.
func (l *Lab) Push(t testing.TB, repository, tag string, i Image) string {
	t.Helper()
	img, err := tarball.ImageFromPath(Archive(t, i), nil)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(l.Registry + "/" + repository + ":" + tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return ref.Context().Digest(digest.String()).String()
}

// Exists says whether a registry has an image: repository is host:port/path,
// reference a tag or a digest.
func Exists(t testing.TB, repository, reference string) bool {
	t.Helper()
	repo, err := name.NewRepository(repository)
	if err != nil {
		t.Fatal(err)
	}
	var ref name.Reference = repo.Tag(reference)
	if digest := repo.Digest(reference); len(reference) > 7 && reference[:7] == "sha256:" {
		ref = digest
	}
	_, err = remote.Head(ref)
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

// Remove deletes an image from a registry: repository is host:port/path,
// digest sha256:... Its tags go with it.
func Remove(t testing.TB, repository, digest string) {
	t.Helper()
	ref, err := name.NewDigest(repository + "@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Delete(ref); err != nil {
		t.Fatal(err)
	}
}
