package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/test/sshd"
	"fediversity.eu/yuba/test/world"
)

// What identities cost: no-op plans of a group with a spire node and of one
// without, in turns, and the size of their states. The spire node is a real sshd
// with a program behind it that always says the same.
func BenchmarkSpire(b *testing.B) {
	const n = 25
	deployed := func(with bool) *world.World {
		w := group(b, n)
		if with {
			ca, err := os.ReadFile(w.Lab.CA)
			if err != nil {
				b.Fatal(err)
			}
			answer, err := handoff.Server{MachineID: fmt.Sprintf("%032x", 1), TrustDomain: "fediversity", Bundle: string(ca)}.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			file := filepath.Join(w.Dir, "answer")
			write(b, file, answer)
			door := sshd.Start(b)
			w.Env["SSH_PRIVATE_KEY_FILE"] = door.KeyFile
			command := door.Script(b, "yuba", "case $2 in show) cat "+file+" ;; *) cat >/dev/null ;; esac\n")
			w.Edit(func(g map[string]any) {
				g["spire"] = map[string]any{"host": door.Host, "port": door.Port, "user": door.User, "hostKeys": []string{door.HostKeys["ssh-ed25519"]}, "command": command}
			})
		}
		w.Edit(func(g map[string]any) { g["rolloutTimeout"] = "10m" })
		w.Must(0, "k8s", "apply", "-auto-approve", "-parallelism=20")
		return w
	}
	for b.Loop() {
		worlds := map[bool]*world.World{false: deployed(false), true: deployed(true)}
		costs := map[bool][]cost{}
		for range 5 {
			for with, w := range worlds {
				costs[with] = append(costs[with], measure(b, w.Command("k8s", "plan", "-detailed-exitcode")))
			}
		}
		size := func(with bool) float64 { return float64(len(worlds[with].Must(0, "state", "pull").Stdout)) / n }
		report(b, "noop-", costs[true], nil)
		for name, figure := range map[string]func(bool) float64{
			"cpu":        func(with bool) float64 { return median(costs[with], cpu).Seconds() },
			"rss":        func(with bool) float64 { return float64(median(costs[with], rss)) },
			"state-size": size,
		} {
			b.ReportMetric(figure(true)/figure(false), name+"-ratio")
		}
		b.ReportMetric(size(true), "state-B/node")
		for _, w := range worlds {
			w.Must(0, "k8s", "destroy", "-auto-approve", "-parallelism=20")
		}
	}
}
