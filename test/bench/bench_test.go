// Package bench measures the built program: `make bench` prints the figures.
// What it compares it runs in turns, so that the ratios hold on a machine that
// others use, too.
package bench

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// rounds is how often each command of a comparison runs, after one run that
// does not count.
const rounds = 7

// cost is what one run of a command took, with all processes that it started
// and waited for.
type cost struct {
	cpu, wall time.Duration
	rss       int64 // the largest process, in bytes
}

func measure(b *testing.B, cmd *exec.Cmd) cost {
	b.Helper()
	begin := time.Now()
	r := world.Run(b, cmd)
	wall := time.Since(begin)
	if r.Code != 0 {
		b.Fatalf("%q: %v", cmd.Args, r)
	}
	state := cmd.ProcessState
	return cost{state.UserTime() + state.SystemTime(), wall, state.SysUsage().(*syscall.Rusage).Maxrss * 1024}
}

// median of one figure of the costs.
func median[T int64 | time.Duration](costs []cost, figure func(cost) T) T {
	var all []T
	for _, c := range costs {
		all = append(all, figure(c))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func cpu(c cost) time.Duration  { return c.cpu }
func wall(c cost) time.Duration { return c.wall }
func rss(c cost) int64          { return c.rss }

// deployed is a world in which a group of n nodes runs.
func deployed(b *testing.B, n int) *world.World {
	b.Helper()
	w := world.New(b)
	var nodes []world.Node
	for i := range n {
		nodes = append(nodes, world.Node{Name: fmt.Sprintf("node%03d", i), Image: lab.Image{Content: "one"}})
	}
	w.Group(nodes...)
	w.Must(0, "k8s", "apply", "-auto-approve", "-parallelism=20")
	return w
}

// A plan that finds nothing to do, against stock tofu on the exported graph
// with the same providers as its plugins.
func BenchmarkNoOpPlan(b *testing.B) {
	for _, n := range []int{10, 50} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			w := deployed(b, n)
			stock := w.Stock()
			ours, theirs := []string{"k8s", "plan", "-detailed-exitcode"}, []string{"plan", "-detailed-exitcode"}
			measure(b, w.Command(ours...))
			measure(b, stock.Command(theirs...))
			for b.Loop() {
				var yuba, tofu []cost
				for range rounds {
					yuba = append(yuba, measure(b, w.Command(ours...)))
					tofu = append(tofu, measure(b, stock.Command(theirs...)))
				}
				report(b, yuba, tofu)
			}
			w.Must(0, "k8s", "destroy", "-auto-approve", "-parallelism=20")
		})
	}
}

func report(b *testing.B, yuba, tofu []cost) {
	b.ReportMetric(0, "ns/op") // of the benchmark's own loop; it says nothing
	b.ReportMetric(median(yuba, cpu).Seconds(), "yuba-cpu-s")
	b.ReportMetric(median(tofu, cpu).Seconds(), "tofu-cpu-s")
	b.ReportMetric(median(yuba, wall).Seconds(), "yuba-wall-s")
	b.ReportMetric(median(tofu, wall).Seconds(), "tofu-wall-s")
	b.ReportMetric(float64(median(yuba, rss))/1e6, "yuba-MB")
	b.ReportMetric(float64(median(tofu, rss))/1e6, "tofu-MB")
	b.ReportMetric(median(yuba, cpu).Seconds()/median(tofu, cpu).Seconds(), "cpu-ratio")
	b.ReportMetric(median(yuba, wall).Seconds()/median(tofu, wall).Seconds(), "wall-ratio")
}

// What the program costs before it does anything.
func BenchmarkVersion(b *testing.B) {
	program := world.Program(b)
	info, err := os.Stat(program)
	if err != nil {
		b.Fatal(err)
	}
	run := func() *exec.Cmd {
		cmd := exec.Command(program, "version")
		cmd.Env = []string{}
		return cmd
	}
	measure(b, run())
	for b.Loop() {
		var costs []cost
		for range 3 * rounds {
			costs = append(costs, measure(b, run()))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(median(costs, cpu).Seconds(), "cpu-s")
		b.ReportMetric(float64(median(costs, rss))/1e6, "MB-RSS")
		b.ReportMetric(float64(info.Size())/1e6, "MB-file")
	}
}

// How many requests a plan sends that finds nothing to do.
func BenchmarkRequests(b *testing.B) {
	w := deployed(b, 10)
	requests := w.CountRequests()
	for b.Loop() {
		requests.Reset()
		w.Must(0, "k8s", "plan", "-detailed-exitcode")
		list := requests.List()
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(len(list)), "requests")
		b.Logf("a no-op plan of 10 nodes asks:\n  %s", strings.Join(list, "\n  "))
	}
}
