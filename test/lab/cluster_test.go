package lab_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fediversity.eu/yuba/test/lab"
)

const claim = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: web}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: %s
  resources: {requests: {storage: 1Gi}}
`

const withClaim = `        volumeMounts: [{name: state, mountPath: /var/lib}]
      volumes: [{name: state, persistentVolumeClaim: {claimName: web}}]`

var (
	claims  = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volumes = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
)

func TestClaimGetsAVolumeOnceAPodWantsItAndLosesItWhenDeleted(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	image := l.Push(t, ns+"/web", "1", lab.Image{})
	l.Apply(t, ns, fmt.Sprintf(claim, "standard"))
	if got := l.Kubectl(t, "get", "pvc", "-n", ns, "web", "-o", "jsonpath={.status.phase}"); got != "Pending" {
		t.Errorf("without a pod the claim is %s", got)
	}
	l.Apply(t, ns, deployment(image, withClaim))
	until(t, l, ns, "to be ready", func(p pod) bool { return p.condition("Ready") == "True" })
	pvc := l.Until(t, claims, ns, "web", "to be bound", func(u *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		return phase == "Bound"
	})
	volume, _, _ := unstructured.NestedString(pvc.Object, "spec", "volumeName")
	l.Kubectl(t, "delete", "-n", ns, "deployment/web", "pvc/web", "--timeout=60s")
	lab.Eventually(t, "the volume to be gone", func() error {
		_, err := l.Client(t).Resource(volumes).Get(context.Background(), volume, meta.GetOptions{})
		if err == nil {
			return fmt.Errorf("%s is there", volume)
		}
		return nil
	})
}

func TestPodWithoutAVolumeForItsClaimStaysPending(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Apply(t, ns, fmt.Sprintf(claim, "none")+"---\n"+deployment(l.Push(t, ns+"/web", "1", lab.Image{}), withClaim))
	p := until(t, l, ns, "to be refused", func(p pod) bool { return p.condition("PodScheduled") == "False Unschedulable" })
	events(t, l, ns, p, "Warning FailedScheduling")
}

func TestRegistryKeepsWhatIsPushed(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Name(t)
	if lab.Exists(t, l.Registry+"/"+ns+"/web", "1") {
		t.Error("the image is there before it was pushed")
	}
	image := l.Push(t, ns+"/web", "1", lab.Image{Content: "x"})
	repository, digest, _ := strings.Cut(image, "@")
	if !lab.Exists(t, repository, "1") || !lab.Exists(t, repository, digest) {
		t.Error("the image is not there after it was pushed")
	}
	if other := l.Push(t, ns+"/web", "2", lab.Image{Content: "y"}); other == image {
		t.Error("images of different content have the same digest")
	}
}

func TestTokensAreIssuedAndReviewed(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	token := strings.TrimSpace(l.Kubectl(t, "create", "token", "-n", ns, "default", "--audience=spire-server"))
	review := func(token, audience string) (status struct {
		Authenticated bool
		User          struct{ Username string }
		Audiences     []string
	}) {
		reviews := l.Client(t).Resource(schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "tokenreviews"})
		u, err := reviews.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
			"spec": map[string]any{"token": token, "audiences": []any{audience}},
		}}, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(u.Object["status"])
		if err == nil {
			err = json.Unmarshal(data, &status)
		}
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	if s := review(token, "spire-server"); !s.Authenticated || s.User.Username != "system:serviceaccount:"+ns+":default" {
		t.Errorf("a good token: %+v", s)
	}
	if s := review(token, "someone-else"); s.Authenticated {
		t.Errorf("a token for another audience: %+v", s)
	}
	if s := review(token[:len(token)-8]+"AAAAAAAA", "spire-server"); s.Authenticated {
		t.Errorf("a forged token: %+v", s)
	}
}

func TestServiceAccountMayOnlyWhatItsRoleSays(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Kubectl(t, "create", "role", "-n", ns, "look", "--verb=get,list", "--resource=pods")
	l.Kubectl(t, "create", "rolebinding", "-n", ns, "look", "--role=look", "--serviceaccount="+ns+":default")
	token := strings.TrimSpace(l.Kubectl(t, "create", "token", "-n", ns, "default"))
	ca, err := os.ReadFile(l.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{
		"/api/v1/namespaces/" + ns + "/pods":    http.StatusOK,
		"/api/v1/namespaces/" + ns + "/secrets": http.StatusForbidden,
		"/api/v1/namespaces/default/pods":       http.StatusForbidden,
	} {
		for bearer, want := range map[string]int{token: want, "nonsense": http.StatusUnauthorized} {
			req, err := http.NewRequest(http.MethodGet, l.Server+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+bearer)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("GET %s: %s, want %d", path, resp.Status, want)
			}
		}
	}
}

func TestRequestsOfAProgramAreCounted(t *testing.T) {
	t.Parallel()
	l := lab.Start(t)
	ns := l.Namespace(t)
	l.Kubectl(t, "get", "configmaps", "-n", ns, "--request-timeout=20s")
	found := false
	for _, r := range l.Requests(t, "kubectl/") {
		found = found || r.Verb == "list" && strings.HasPrefix(r.RequestURI, "/api/v1/namespaces/"+ns+"/configmaps?")
	}
	if !found {
		t.Error("the audit log has no such request of kubectl")
	}
	if n := len(l.Requests(t, "nobody/")); n != 0 {
		t.Errorf("%d requests of a program that never asked", n)
	}
}
