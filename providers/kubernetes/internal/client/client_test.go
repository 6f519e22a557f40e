package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// answers is what stands between us and an API server: a proxy that answers by
// itself. Each request gets the next answer, the last one again and again.
func answers(t *testing.T, list ...http.HandlerFunc) (*Client, *int) {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := list[min(n, len(list)-1)]
		n++
		h(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := New(&rest.Config{Host: s.URL + "/base/"}, "test", "yuba")
	if err != nil {
		t.Fatal(err)
	}
	return c, &n
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func get(c *Client) (Object, error) {
	return c.Get(context.Background(), Builtin("v1", "ConfigMap"), "ns", "a")
}

func TestAnswersOfProxies(t *testing.T) {
	const page = "<html><body>Service Unavailable, token s3cret</body></html>"
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{"))
	}
	for name, tt := range map[string]struct {
		answers []http.HandlerFunc
		want    string // of the error; "" for none
		lacks   string
	}{
		"page, then the server": {[]http.HandlerFunc{answer(503, page), answer(200, `{"kind":"ConfigMap","metadata":{"name":"a"}}`)}, "", ""},
		"cut, then the server":  {[]http.HandlerFunc{cut, answer(200, `{"kind":"ConfigMap","metadata":{"name":"a"}}`)}, "", ""},
		"login page":            {[]http.HandlerFunc{answer(403, page)}, "the server answered 403 Forbidden", "s3cret"},
		"redirect": {[]http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login", http.StatusFound)
		}, answer(200, `{}`)}, "the server answered 302 Found", ""},
		"no JSON":         {[]http.HandlerFunc{answer(200, page)}, "no JSON object", ""},
		"JSON of others":  {[]http.HandlerFunc{answer(200, `{"status":"ok"}`)}, "the answer is no ConfigMap a: see what stands between", ""},
		"another object":  {[]http.HandlerFunc{answer(200, `{"kind":"ConfigMap","metadata":{"name":"b"}}`)}, "the answer is no ConfigMap a", ""},
		"JSON, null":      {[]http.HandlerFunc{answer(200, `null`)}, "no JSON object", ""},
		"JSON, no object": {[]http.HandlerFunc{answer(200, `[]`)}, "no JSON object", ""},
		"plain text":      {[]http.HandlerFunc{answer(404, "404 page not found\n")}, "404 page not found", ""},
		"unauthorized":    {[]http.HandlerFunc{answer(401, `{"kind":"Status","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)}, "does not accept the credentials of the kubeconfig", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := answers(t, tt.answers...)
			_, err := get(c)
			switch {
			case apierrors.IsNotFound(err):
				t.Errorf("a proxy's answer says that the object is gone: %v", err)
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error lacks %q: %v", tt.want, err)
			case tt.lacks != "" && strings.Contains(err.Error(), tt.lacks):
				t.Errorf("error has %q: %v", tt.lacks, err)
			}
		})
	}
}

// An object that is in no list is gone. What isn't a list has not that to say, and
// none goes on for ever.
func TestListsOfProxies(t *testing.T) {
	const page = `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"x"},"items":[]}`
	const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}`
	turns := 0
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string // of the error; "" for none
	}{
		"no list":        {answer(200, `{"status":"ok"}`), "no list of pods"},
		"no items":       {answer(200, `{"kind":"PodList","apiVersion":"v1","metadata":{}}`), "no list of pods"},
		"odd items":      {answer(200, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":{}}`), "no list of pods"},
		"items, odd":     {answer(200, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[1]}`), "no list of objects"},
		"list of others": {answer(200, `{"kind":"List","apiVersion":"v2","metadata":{},"items":[]}`), "no list of pods"},
		"none":           {answer(200, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`), ""},
		"endless":        {answer(200, page), "larger than 4000 pages"},
		"always expired": {func(w http.ResponseWriter, r *http.Request) {
			if turns++; r.URL.Query().Has("continue") {
				answer(410, expired)(w, r)
			} else {
				answer(200, page)(w, r)
			}
		}, "its pages expired 6 times"},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := answers(t, tt.answer)
			items, _, err := c.List(context.Background(), Builtin("v1", "Pod"), "ns", ListOptions{})
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) || len(items) > 0 || apierrors.IsResourceExpired(err) {
				t.Errorf("error lacks %q: %v", tt.want, err)
			}
			if *n > maxPages+1 {
				t.Errorf("%d requests", *n)
			}
		})
	}
	if turns != 12 {
		t.Errorf("an expired list was asked for %d times", turns)
	}
}

// A kind that isn't served takes its objects along. Only the API server itself may
// say that.
func TestKindsOfProxies(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	index := func(groups string) http.HandlerFunc {
		return answer(200, `{"kind":"APIGroupList","groups":[`+groups+`]}`)
	}
	here := index(`{"name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"}]}`)
	kinds := answer(200, `{"kind":"APIResourceList","groupVersion":"example.com/v1","resources":[{"name":"things","kind":"Thing","namespaced":true}]}`)
	gone, page := answer(404, "404 page not found\n"), answer(404, "<html>no backend</html>")
	for name, tt := range map[string]struct {
		answers   []http.HandlerFunc
		notServed bool
		want      string // of another error; "" for none
	}{
		"not served":        {[]http.HandlerFunc{gone, index("")}, true, ""},
		"another version":   {[]http.HandlerFunc{gone, index(`{"name":"example.com","versions":[{"groupVersion":"example.com/v2","version":"v2"}]}`)}, true, ""},
		"a proxy":           {[]http.HandlerFunc{page}, false, "404 Not Found"},
		"a proxy with JSON": {[]http.HandlerFunc{page, answer(200, `{}`)}, false, "no list of API groups"},
		"JSON of others":    {[]http.HandlerFunc{answer(200, `{}`)}, false, "no list of the kinds of example.com/v1"},
		"for a moment":      {[]http.HandlerFunc{page, here, kinds}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := answers(t, tt.answers...)
			_, err := c.Kind(context.Background(), gvk)
			var notServed *NotServedError
			switch {
			case errors.As(err, &notServed) != tt.notServed:
				t.Errorf("not served: %v", err)
			case tt.want == "" && !tt.notServed && err != nil, tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want):
				t.Errorf("error lacks %q: %v", tt.want, err)
			}
		})
	}
}

// Who asks only once is answered once: a refusal is not tried again.
func TestRefusalsAreFinal(t *testing.T) {
	for _, code := range []int{400, 403, 404, 409, 422} {
		c, n := answers(t, answer(code, "no"))
		if _, err := get(c); err == nil || *n != 1 {
			t.Errorf("%d: %d requests, %v", code, *n, err)
		}
	}
}

// Names are one step of a path whatever is in them, below the server's base.
func TestPaths(t *testing.T) {
	var got string
	c, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.EscapedPath()
		_, _ = w.Write([]byte(`{"kind":"ClusterRole","metadata":{"name":"system:a b?c#d"}}`))
	})
	role := Builtin("rbac.authorization.k8s.io/v1", "ClusterRole")
	if _, err := c.Get(context.Background(), role, "", "system:a b?c#d"); err != nil {
		t.Fatal(err)
	}
	if want := "/base/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3Fc%23d"; got != want {
		t.Errorf("%s", got)
	}
}

func TestWarnings(t *testing.T) {
	h := http.Header{"Warning": {`299 - "use \"b\" instead"`, `110 proxy "stale"`, `299 - unquoted`}}
	if got := warningsOf(h); len(got) != 1 || got[0] != `use "b" instead` {
		t.Errorf("%q", got)
	}
}

// What the API server says of conflicts (apimachinery's managedfields), with
// names that would confuse a careless reader.
func TestConflicts(t *testing.T) {
	cause := func(message string) metav1.StatusCause {
		return metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: message, Field: ".spec.x"}
	}
	err := error(apierrors.NewApplyConflict([]metav1.StatusCause{
		cause(`conflict with "kubectl-set" using apps/v1 at 2026-01-01T00:00:00Z`),
		cause(`conflict with "flux"`),
		cause(`conflict with "a \" using b"`),
		cause(`conflict with "kubelet" with subresource "status" using v1`),
	}, "x"))
	got := Conflicts(err)
	want := []Conflict{
		{"kubectl-set", false, ".spec.x"}, {"flux", true, ".spec.x"}, {`a \" using b`, true, ".spec.x"}, {"kubelet", false, ".spec.x"},
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if Conflicts(errors.New("other")) != nil {
		t.Error("other errors have conflicts")
	}
}

// One answer for all who ask at once; an error is not kept, a refusal is.
func TestMemo(t *testing.T) {
	var m memo[string, int]
	ctx := context.Background()
	asked := 0
	ask := func(v int, err error) func() (int, error) {
		return func() (int, error) { asked++; return v, err }
	}
	_, err := m.do(ctx, "a", ask(0, errors.New("x")))
	v, _ := m.do(ctx, "a", ask(7, nil))
	w, _ := m.do(ctx, "a", ask(8, nil))
	if err == nil || v != 7 || w != 7 || asked != 2 {
		t.Errorf("%v %d %d, asked %d times", err, v, w, asked)
	}
	if v, ok := m.peek("a"); !ok || v != 7 {
		t.Error("it does not know what it has")
	}
	forbidden := apierrors.NewForbidden(Builtin("v1", "Pod").GroupVersion().WithResource("pods").GroupResource(), "", errors.New("no"))
	_, _ = m.do(ctx, "b", ask(0, forbidden))
	if _, err := m.do(ctx, "b", ask(1, nil)); !apierrors.IsForbidden(err) || asked != 3 {
		t.Errorf("a refusal is asked for again: %v", err)
	}
	m.forget("a")
	if v, _ := m.do(ctx, "a", ask(9, nil)); v != 9 {
		t.Error("it does not forget")
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	m.entries["a"].sem <- struct{}{}
	if _, err := m.do(done, "a", ask(1, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits cannot be interrupted: %v", err)
	}
}

// Whether a refused dry run says something about the apply is no matter of words
// that anybody could say.
func TestNoAnswer(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message}}
	}
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"namespace to come":       {status(404, metav1.StatusReasonNotFound, `namespaces "x" not found`), true},
		"kind to come":            {status(404, metav1.StatusReasonNotFound, `the server could not find the requested resource`), true},
		"service account to come": {status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: error looking up service account ns/own: serviceaccount "own" not found`), true},
		"RuntimeClass to come":    {status(403, metav1.StatusReasonForbidden, `pods "p" is forbidden: pod rejected: RuntimeClass "systemd" not found`), true},
		"webhook without dry run": {status(400, metav1.StatusReasonBadRequest, `admission webhook "a.example" does not support dry run`), true},
		"webhook's denial":        {status(403, metav1.StatusReasonForbidden, `admission webhook "a.example" denied the request: owner not found`), false},
		"webhook that quotes":     {status(403, metav1.StatusReasonForbidden, `admission webhook "a.example" denied the request: pods "p" is forbidden: pod rejected: RuntimeClass "x" not found`), false},
		"policy's denial":         {status(422, metav1.StatusReasonInvalid, `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' denied request: team not found`), false},
		"what is not valid":       {status(422, metav1.StatusReasonInvalid, `Deployment.apps "web" is invalid: spec: volume "x" not found`), false},
		"webhook that is away":    {status(500, metav1.StatusReasonInternalError, `failed calling webhook "a.example": service "a" not found`), false},
		"proxy's page":            {&NoPathError{Answer: "the server answered 404 Not Found"}, false},
		"no answer":               {errors.New("not found"), false},
	} {
		if got := NoAnswer(fmt.Errorf("dry run: %w", tt.err)); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
