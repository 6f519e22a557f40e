package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"fediversity.eu/yuba/providers/kubernetes"
)

// answers stands for an API server that answers some paths with a status.
type answers struct {
	http.RoundTripper
	status map[string]int
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code, ok := a.status[r.URL.Path]
	if !ok {
		return a.RoundTripper.RoundTrip(r)
	}
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no answer by the test","reason":%q,"code":%d}`,
		map[int]string{403: "Forbidden", 500: "InternalError"}[code], code)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// One question that has no answer is one finding, and the rest is told.
func TestDoctorGoesOnWithoutAnAnswer(t *testing.T) {
	c := newCluster(t, kubernetes.WithTransport(func(next http.RoundTripper) http.RoundTripper {
		return answers{next, map[string]int{"/version": 403, "/apis/node.k8s.io/v1/runtimeclasses/systemd": 500, "/apis/apps/v1/daemonsets": 403}}
	}))
	findings, err := c.operator().Doctor(context.Background(), kubernetes.DoctorOptions{Namespace: c.ns, RuntimeClass: "systemd", StorageClasses: []string{"standard"}})
	must(t, err)
	got := map[string]kubernetes.Finding{}
	for _, f := range findings {
		got[f.Check] = f
	}
	for check, want := range map[string]string{
		"server version": "lacks the permission to ask: get on the path /version",
		"RuntimeClass":   "500 Internal Server Error: no answer by the test",
		"NetworkPolicy":  "lacks the permission to ask: list on daemonsets.apps",
		"StorageClass":   "standard, of ",
		"permissions":    "may do all",
	} {
		verdict := kubernetes.FindingUnknown
		if check == "StorageClass" || check == "permissions" {
			verdict = kubernetes.FindingOK
		}
		if f := got[check]; f.Verdict != verdict || !strings.Contains(f.Message, want) {
			t.Errorf("%s: %+v, want %s, %q", check, f, verdict, want)
		}
	}
}
