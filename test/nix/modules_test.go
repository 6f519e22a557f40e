package nix

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/test/nixstore"
)

// The cluster has configured eth0, whatever the node's configuration says, and
// with both of NixOS's ways to configure networks.
func TestNetworkIsTheClusters(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	for _, networkd := range []string{"true", "false"} {
		var got struct {
			First               map[string]any
			Masked, Nameservers []string
			Firewall, Nftables  bool
			DHCP, Wait, Resolv  bool
			Trusted             []string
			Files               []string
		}
		eval(t, s, `let c = (pod {
				networking.useNetworkd = `+networkd+`;
				networking.interfaces.eth0 = { };
				networking.interfaces.ens3 = { };
				networking.firewall.allowedTCPPorts = [ 80 ];
			}).config; in {
				First = lib.head (builtins.attrValues c.systemd.network.networks);
				Masked = builtins.attrNames (lib.filterAttrs (_: u: !u.enable) c.systemd.services);
				Firewall = c.networking.firewall.enable;
				Trusted = c.networking.firewall.trustedInterfaces;
				Nftables = c.networking.nftables.enable;
				DHCP = c.networking.useDHCP || c.networking.dhcpcd.enable;
				Wait = c.systemd.network.wait-online.enable;
				Resolv = c.networking.resolvconf.enable || c.services.resolved.enable || c.networking.useHostResolvConf;
				Files = builtins.attrNames (lib.filterAttrs (_: f: f.enable) c.environment.etc);
			}`, &got)
		if d := cmp.Diff(map[string]any{
			"matchConfig": map[string]any{"Name": "eth0"},
			"linkConfig":  map[string]any{"Unmanaged": true, "RequiredForOnline": false},
		}, got.First); d != "" {
			t.Errorf("networkd=%s: the first file of networkd (-want +got):\n%s", networkd, d)
		}
		for _, unit := range []string{"network-addresses-eth0", "network-addresses-ens3", "network-setup", "domainname", "console-getty"} {
			if !slices.Contains(got.Masked, unit) {
				t.Errorf("networkd=%s: %s can start", networkd, unit)
			}
		}
		if got.Firewall || got.Nftables || got.DHCP || got.Wait || got.Resolv || len(got.Files) != 0 {
			t.Errorf("networkd=%s: %+v", networkd, got)
		}
		if !slices.Equal(got.Trusted, []string{"eth0"}) {
			t.Errorf("networkd=%s: trusted interfaces: %q", networkd, got.Trusted)
		}
	}
}

// asserts fails unless one assertion of a system does with these words, or none
// with "".
func asserts(t *testing.T, s *nixstore.Store, configuration, want string) {
	t.Helper()
	var messages []string
	eval(t, s, `map (a: a.message) (lib.filter (a: !a.assertion) (`+configuration+`).config.assertions)`, &messages)
	if want == "" && len(messages) > 0 || want != "" && (len(messages) != 1 || !strings.Contains(messages[0], want)) {
		t.Errorf("%s: %q, want %q", configuration, messages, want)
	}
}

// What can't be there in a pod fails the evaluation or is off; what must stay is
// below /var/lib.
func TestPod(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	for configuration, want := range map[string]string{
		`{ services.openssh.enable = true; yuba.pod.persistentPaths = [ "/var/lib/postgresql" "/var/lib" ]; }`: "",
		`{ services.openbao.enable = true; }`:                                                   "a pod has none",
		`{ yuba.pod.persistentPaths = [ "/var/lib/a" "/srv/b" ]; }`:                             "/srv/b is not below /var/lib",
		`{ yuba.pod.persistentPaths = [ "/var/library" ]; }`:                                    "/var/library is not below /var/lib",
		`{ services.openssh.hostKeys = [ { type = "rsa"; path = "/etc/ssh/rsa"; } ]; }`:         "/etc/ssh/rsa is not below",
		`{ imports = [ yuba.modules.spire-node ]; yuba.spireNode.enable = true; }`:              "the SPIRE server stays outside",
		`{ yuba.pod.spire = { enable = true; serverAddress = "x"; socket = "/tmp/s.sock"; }; }`: "/tmp/s.sock is not below /run/spire-agent",
	} {
		asserts(t, s, "pod "+configuration, want)
	}

	var got map[string]any
	eval(t, s, `let c = (pod {
			fileSystems."/".device = "/dev/sda1";
			swapDevices = [ { device = "/dev/sda2"; } ];
			systemd.services.dynamic.serviceConfig.DynamicUser = true;
			systemd.services.fixed.serviceConfig.User = "x";
		}).config; in {
			inherit (c) fileSystems swapDevices warnings;
			inherit (c.boot) isContainer specialFileSystems nixStoreMountOpts;
			inherit (c.services.openssh) hostKeys startWhenNeeded;
			tmpfiles = c.systemd.tmpfiles.rules;
			wrappers = c.systemd.services.suid-sgid-wrappers.unitConfig.RequiresMountsFor;
		}`, &got)
	warnings, _ := got["warnings"].([]any)
	if len(warnings) != 1 || !strings.Contains(warnings[0].(string), "systemd.services.dynamic has DynamicUser=") {
		t.Errorf("warnings: %q", warnings)
	}
	delete(got, "warnings")
	if d := cmp.Diff(map[string]any{
		"fileSystems": map[string]any{}, "swapDevices": []any{}, "specialFileSystems": map[string]any{}, "nixStoreMountOpts": []any{},
		"isContainer":     true,
		"hostKeys":        []any{map[string]any{"type": "ed25519", "path": "/var/lib/ssh/ssh_host_ed25519_key"}},
		"startWhenNeeded": false,
		"tmpfiles":        []any{"z /run 0755 root root -"},
		"wrappers":        []any{"/nix/store"},
	}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// units builds a system and returns the folder of its units, which systemd has
// found nothing wrong with.
func units(t *testing.T, s *nixstore.Store, configuration string) string {
	t.Helper()
	dir := filepath.Join(build(t, s, "("+configuration+").config.system.build.toplevel"), "units")
	files, err := filepath.Glob(dir + "/*spire*")
	must(t, err)
	more, err := filepath.Glob(dir + "/yuba*")
	must(t, err)
	// Another unit that it names is not there: that is no concern of it.
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, append(files, more...)...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
	return dir
}

// settings returns a unit's settings, each with its values.
func settings(t testing.TB, dir, unit string) map[string][]string {
	t.Helper()
	m := map[string][]string{}
	for line := range strings.Lines(read(t, dir, unit)) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
			m[key] = append(m[key], value)
		}
	}
	return m
}

// configuration reads the JSON file behind -config of a unit's command.
func configuration(t testing.TB, dir, unit string) (all map[string]any) {
	t.Helper()
	words := strings.Fields(settings(t, dir, unit)["ExecStart"][0])
	must(t, json.Unmarshal([]byte(read(t, words[slices.Index(words, "-config")+1])), &all))
	return all
}

const podWithAgent = `pod { yuba.pod.spire = { enable = true; serverAddress = "spire.example.org"; tokenLifetime = 600; }; }`

// What the graph puts into the pod (method/k8s) is where the agent looks for it.
func TestSpireAgent(t *testing.T) {
	t.Parallel()
	dir := units(t, nixstore.New(t), podWithAgent)
	agent := configuration(t, dir, "spire-agent.service")
	if d := cmp.Diff(map[string]any{
		"data_dir": "/var/lib/spire-agent", "server_address": "spire.example.org", "server_port": 8081.0, "socket_path": "/run/spire-agent/api.sock",
		"trust_domain": "fediversity", "trust_bundle_path": "/run/yuba/spire/bundle.pem", "trust_bundle_format": "pem", "rebootstrap_mode": "always",
	}, agent["agent"]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	attestor := agent["plugins"].(map[string]any)["NodeAttestor"]
	if d := cmp.Diff([]any{map[string]any{"k8s_psat": map[string]any{"plugin_data": map[string]any{
		"cluster": "$SPIRE_CLUSTER", "token_path": "/run/spire-token/token"}}}}, attestor); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	unit := settings(t, dir, "spire-agent.service")
	if unit["User"][0] != "spire-agent" || unit["Requires"][0] != "spire-token.service" || !strings.Contains(unit["ExecStart"][0], " -expandEnv ") {
		t.Errorf("the agent's unit: %v", unit)
	}
	// Copies are made within the fifth of its life that a token has left when
	// there is a new one.
	if timer := settings(t, dir, "spire-token.timer"); timer["OnUnitActiveSec"][0] != "30" {
		t.Errorf("the timer: %v", timer)
	}
	if path := settings(t, dir, "spire-token.path"); path["PathChanged"][0] != "/run/yuba/spire" {
		t.Errorf("the path: %v", path)
	}
}

// The service's own script, run as root in a mount namespace where /run is what
// a pod has: the agent can read the copy, which has the same bytes, and nobody
// else can.
func TestTokenCopy(t *testing.T) {
	t.Parallel()
	dir := units(t, nixstore.New(t), podWithAgent)
	unit := settings(t, dir, "spire-token.service")
	if unit["RuntimeDirectory"][0] != "spire-token" || unit["RuntimeDirectoryMode"][0] != "0750" || unit["Group"][0] != "spire-agent" || unit["User"] != nil || unit["UMask"][0] != "0077" {
		t.Errorf("the unit: %v", unit)
	}
	const pod = withAgentUser + `
		hostname web
		mkdir -p /run/yuba/spire
		printf 'header.payload.signature' >/run/yuba/spire/token
		printf 'fediversity' >/run/yuba/spire/namespace
		chmod 0400 /run/yuba/spire/*
		umask 0077
		install -d -m 0750 -g spire-agent /run/spire-token
		$1
		printf 'second\n\n' >/run/yuba/spire/token
		$1
		ls -A /run/spire-token
		stat -c '%a %U %G' /run/spire-token/token /run/spire-token/environment
		cat /run/spire-token/environment
		od -An -c /run/spire-token/token
		: >/run/yuba/spire/token
		! $1
		od -An -c /run/spire-token/token`
	out := isolated(t, []string{"--uts"}, pod, unit["ExecStart"][0])
	const want = "environment\ntoken\n400 spire-agent spire-agent\n600 root root\nSPIRE_CLUSTER=fediversity-web\n" +
		"   s   e   c   o   n   d  \\n  \\n\n   s   e   c   o   n   d  \\n  \\n\n"
	if out != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}

// The server's configuration has what yuba needs and what the machine's owner
// adds; yuba's part of the units is what yuba knows.
func TestSpireNode(t *testing.T) {
	t.Parallel()
	dir := units(t, nixstore.New(t), `with' "spire-node" { yuba.spireNode = {
			enable = true;
			openFirewall = true;
			yubaPackage = program "";
			settings.server.ca_ttl = "72h";
			settings.plugins.NodeAttestor = [ { tpm_devid.plugin_data.devid_ca_path = "/etc/devid.pem"; } ];
			settings.plugins.KeyManager = [ { memory.plugin_data = { }; } ];
		}; }`)
	server := configuration(t, dir, "spire-server.service")
	if d := cmp.Diff(map[string]any{
		"bind_address": "0.0.0.0", "bind_port": 8081.0, "socket_path": "/run/spire/server/private/api.sock", "trust_domain": "fediversity",
		"data_dir": "/var/lib/spire-server", "ca_ttl": "72h",
	}, server["server"]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	plugins := server["plugins"].(map[string]any)
	attestors, _ := json.Marshal(plugins["NodeAttestor"])
	for _, want := range []string{`{"k8s_psat":{"plugin_data_file":"/var/lib/yuba-spire/k8s_psat.json"}}`, `{"tpm_devid":`} {
		if !strings.Contains(string(attestors), want) {
			t.Errorf("node attestors: %s, without %s", attestors, want)
		}
	}
	if d := cmp.Diff([]any{map[string]any{"memory": map[string]any{"plugin_data": map[string]any{}}}}, plugins["KeyManager"]); d != "" {
		t.Errorf("key manager (-want +got):\n%s", d)
	}
	for _, unit := range []string{"spire-server.service", "yuba-spire-sync.service"} {
		if m := settings(t, dir, unit); m["User"][0] != "spire-server" || m["CapabilityBoundingSet"][0] != "" || m["ProtectSystem"][0] != "strict" || m["UMask"][0] != "0077" {
			t.Errorf("%s: %v", unit, m)
		}
	}
}

// The state server of the module is started as its unit says, with the same
// flags.
func TestStateServer(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	const configuration = `with' "state-server" { yuba.stateServer = {
		enable = true; package = program ""; listen = "[::]:443";
		usersFile = "/run/secrets/users"; tls.certFile = "/run/secrets/cert.pem"; tls.keyFile = "/run/secrets/key.pem";
	}; }`
	dir := units(t, s, configuration)
	unit := settings(t, dir, "yuba-state.service")
	if d := cmp.Diff([]string{"cert:/run/secrets/cert.pem", "key:/run/secrets/key.pem", "users:/run/secrets/users"}, unit["LoadCredential"]); d != "" {
		t.Errorf("credentials (-want +got):\n%s", d)
	}
	if unit["AmbientCapabilities"][0] != "CAP_NET_BIND_SERVICE" || unit["DynamicUser"][0] != "true" {
		t.Errorf("the unit: %v", unit)
	}
	for configuration, want := range map[string]string{
		`{ listen = "0.0.0.0:8390"; tls.certFile = "/c"; tls.keyFile = "/k"; }`:                                         "without usersFile",
		`{ listen = "[::]:8390"; usersFile = "/run/users"; }`:                                                           "without TLS",
		`{ tls.certFile = "/c"; }`:                                                                                      "belong together",
		`{ usersFile = "${builtins.toFile "users" ""}"; }`:                                                              "must not be in the Nix store",
		`{ listen = "[::]:8390"; usersFile = "/run/users"; tls.certFile = "/run/cert"; tls.keyFile = "/run/key.pem"; }`: "",
		`{ }`: "",
	} {
		asserts(t, s, `with' "state-server" { yuba.stateServer = { enable = true; } // `+configuration+`; }`, want)
	}
}

// What a unit runs is what yuba has.
func TestUnitsFitYuba(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	yuba := os.Getenv("YUBA_TEST_YUBA")
	help := func(verb string) string {
		out, err := exec.Command(yuba, append(strings.Fields(verb), "-h")...).Output()
		must(t, err)
		return string(out)
	}
	check := func(command string) {
		t.Helper()
		words := strings.Fields(command)[1:]
		flags := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
		usage := help(strings.Join(words[:flags], " "))
		for _, w := range words[flags:] {
			name, _, _ := strings.Cut(w, "=")
			if !strings.Contains(usage, "\n  "+name+"\n") && !strings.Contains(usage, "\n  "+name+"=") {
				t.Errorf("%s: yuba has no flag %s", command, name)
			}
		}
	}
	state := settings(t, units(t, s, `with' "state-server" { yuba.stateServer = {
		enable = true; package = program ""; usersFile = "/u"; accessFile = "/a"; tls.certFile = "/c"; tls.keyFile = "/k"; }; }`), "yuba-state.service")
	check(state["ExecStart"][0])
	dir := units(t, s, `with' "spire-node" { yuba.spireNode = { enable = true; yubaPackage = program ""; }; }`)
	check(settings(t, dir, "spire-server.service")["ExecStartPre"][0])
	check(settings(t, dir, "yuba-spire-sync.service")["ExecStart"][0])
}

// Every option says what it is.
func TestOptionsAreDescribed(t *testing.T) {
	t.Parallel()
	var options []string
	eval(t, nixstore.New(t), `
		let
			walk = path: o:
				if (o._type or "") == "option" then
					lib.optional (!(o ? description) || !(o ? type) || !(lib.hasSuffix "." o.description || lib.hasSuffix ".\n" o.description)) path
				else
					builtins.concatLists (lib.mapAttrsToList (n: walk "${path}.${n}") o);
			system = pkgs.nixos { imports = builtins.attrValues yuba.modules; };
		in walk "yuba" system.options.yuba`, &options)
	if len(options) > 0 {
		t.Errorf("without a type or a sentence: %q", options)
	}
}

// The tests with real pods (test/pods) have no Nix: their units must be the module's.
func TestPodsHaveTheseUnits(t *testing.T) {
	t.Parallel()
	s := nixstore.New(t)
	dir := units(t, s, `pod { yuba.pod.spire = { enable = true; serverAddress = "spire.example.org"; }; }`)
	const pods = "../pods/testdata/spire/etc/systemd/system"
	for _, unit := range []string{"spire-agent.service", "spire-token.service", "spire-token.path", "spire-token.timer"} {
		want, got := settings(t, dir, unit), settings(t, pods, unit)
		for _, m := range []map[string][]string{want, got} {
			delete(m, "ExecStart")
			delete(m, "Description")
			for key, values := range m { // a list may be on one line
				m[key] = strings.Fields(strings.Join(values, " "))
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-module +test/pods):\n%s", unit, d)
		}
	}
	script := read(t, strings.Fields(settings(t, dir, "spire-token.service")["ExecStart"][0])[0])
	if body := read(t, "../pods/testdata/spire/usr/local/lib/spire-token"); !strings.HasSuffix(strings.TrimSpace(script), strings.TrimSpace(body)) {
		t.Errorf("the script of spire-token.service is %s, in test/pods %s", script, body)
	}
	if _, err := os.Stat(filepath.Join(dir, "service.d/zz-pod.conf")); err != nil {
		t.Error(err)
	}
}
