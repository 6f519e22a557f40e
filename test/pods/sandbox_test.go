package pods

import (
	"os"
	"strings"
	"testing"

	"fediversity.eu/yuba/test/world"
)

// withServices adds what the NixOS module gives to every service of a node.
func withServices(t *testing.T, files map[string]string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("nix/modules/pod-services.conf")
	if err != nil {
		t.Fatalf("%v: the test runs in the root of the checkout, see 'make test-pods'", err)
	}
	files[servicesDropIn] = string(data)
	return files
}

const servicesDropIn = "etc/systemd/system/service.d/zz-pod.conf"

// Services are sandboxed in many ways, and systemd 255 and later can't do some
// of them in a pod. A service that has them fails, unless each is taken off.
func TestSandboxedServicesRun(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	files := withServices(t, map[string]string{})
	group(w, node("a", "one", rootfs(t, systemd257, files)))
	w.Must(0, "k8s", "apply", "-auto-approve")

	lists := map[string]string{"RestrictAddressFamilies": "AF_UNIX", "SystemCallArchitectures": "native", "SystemCallFilter": "@system-service", "SystemCallLog": "@mount"}
	var settings []string
	for line := range strings.Lines(files[servicesDropIn]) {
		switch name, value, ok := strings.Cut(strings.TrimSpace(line), "="); {
		case strings.HasPrefix(line, "#") || !ok:
		case value == "no":
			settings = append(settings, name+"=yes")
		case value == "" && lists[name] != "":
			settings = append(settings, name+"="+lists[name])
		default:
			t.Errorf("how to test %s?", line)
		}
	}
	// failing are those with which a service fails.
	failing := func(settings []string) string {
		t.Helper()
		return in(t, w, "a", append([]string{"sh", "-c",
			`for s; do systemd-run -q --wait --collect -p User=nobody -p "$s" true 2>/dev/null || echo "$s"; done`, "sh"}, settings...)...)
	}
	if got := failing(append(settings, "PrivateTmp=yes", "PrivateNetwork=yes", "PrivateUsers=yes", "ProtectSystem=strict", "ProtectHome=yes",
		"ProtectProc=invisible", "ReadWritePaths=/var/lib", "CapabilityBoundingSet=", "AmbientCapabilities=CAP_NET_BIND_SERVICE", "LoadCredential=x:/etc/hostname")); got != "" {
		t.Errorf("services fail with each of %q", got)
	}
	in(t, w, "a", "sh", "-c", "rm /"+servicesDropIn+" && systemctl daemon-reload")
	if got, want := failing(settings), strings.Join(settings, "\n"); got != want {
		t.Errorf("without the drop-in services fail with each of %q, not with each of %q", got, want)
	}
}
