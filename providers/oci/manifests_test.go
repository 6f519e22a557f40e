package oci

import (
	"net/http"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/image"
	"fediversity.eu/yuba/test/providertest"
)

// A look says what is missing of many images, and why, and is no error.
func TestManifests(t *testing.T) {
	r := newRegistry(t)
	values := providertest.Values{"source": archiveOf(t, image.Spec{}), "repository": r.Host + "/ns/node", "tag": "1"}
	img := newImage(t)
	p := img.Plan(t.Context(), values)
	ok(t, p.Apply(t.Context(), nil))
	there, gone := img.State["id"].(string), r.Host+"/ns/other@sha256:"+strings.Repeat("0", 64)
	// A server that isn't there.
	closed := newRegistry(t)
	away := closed.Host + "/ns/node@sha256:" + strings.Repeat("1", 64)
	closed.setFault(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	s := &setup{}
	core := providertest.New(t, Server("test", func(c *config) { c.registry.Sleep = s.waits.sleep }), nil)
	got, diags := core.Open(t.Context(), "oci_manifests", providertest.Values{"references": map[string]string{"there": there, "gone": gone, "away": away}})
	ok(t, diags)
	missing := got["missing"].(map[string]any)
	if missing["there"] != "" {
		t.Error(missing["there"])
	}
	wantErr(t, missing["gone"].(string), "does not hold the image "+gone+" any more", "apply again")
	wantErr(t, missing["away"].(string), "Nobody can tell", away, closed.Host)

	_, diags = core.Open(t.Context(), "oci_manifests", providertest.Values{"references": map[string]string{"a": "r.example/x:tag"}})
	wantErr(t, providertest.Errors(diags), "r.example/x:tag", "path@digest")
	got, diags = core.Open(t.Context(), "oci_manifests", providertest.Values{"references": map[string]string{}})
	ok(t, diags)
	if len(got["missing"].(map[string]any)) > 0 {
		t.Error(got)
	}
}
