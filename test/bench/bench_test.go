// Package bench measures the built program: `make bench` prints the figures.
// What it compares it runs in turns, so that the ratios hold on a machine that
// others use, too.
package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// cost is what one run of a command took, with all processes that it started
// and waited for.
type cost struct {
	cpu, wall time.Duration
	rss       int64 // peaks of the process and its children, added up, in bytes
}

func measure(b *testing.B, cmd *exec.Cmd) cost {
	b.Helper()
	return measureCode(b, 0, cmd)
}

// measureCode measures a command that has to end with this exit code.
func measureCode(b *testing.B, code int, cmd *exec.Cmd) cost {
	b.Helper()
	done, peaks := make(chan struct{}), make(chan int64)
	go func() { peaks <- children(cmd, done) }()
	begin := time.Now()
	r := world.Run(b, cmd)
	wall := time.Since(begin)
	close(done)
	if r.Code != code {
		b.Fatalf("%q: want exit code %d, got %v", cmd.Args, code, r)
	}
	state := cmd.ProcessState
	rss := <-peaks
	if rss == 0 { // It was too short to be looked at. This is never below the peak of the process that started it.
		rss = state.SysUsage().(*syscall.Rusage).Maxrss * 1024
	}
	return cost{state.UserTime() + state.SystemTime(), wall, rss}
}

// children looks at this process's children and theirs that run the command or
// were started by it, until done, and adds up the peaks of their memory.
func children(cmd *exec.Cmd, done <-chan struct{}) (sum int64) {
	peaks := map[int]int64{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			for _, p := range peaks {
				sum += p
			}
			return sum
		case <-tick.C:
		}
		for _, pid := range family(os.Getpid(), cmd.Path) {
			peaks[pid] = max(peaks[pid], peak(pid))
		}
	}
}

// family are the children of a process that run a program, and all below them.
func family(parent int, program string) (pids []int) {
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		data, _ := os.ReadFile(name)
		// pid (name) state parent; the name may hold anything.
		i := strings.LastIndex(string(data), ")")
		if f := strings.Fields(string(data[i+1:])); i > 0 && len(f) > 1 {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			parents[pid], _ = strconv.Atoi(f[1])
		}
	}
	var add func(pid int)
	add = func(pid int) {
		pids = append(pids, pid)
		for child, p := range parents {
			if p == pid {
				add(child)
			}
		}
	}
	for child, p := range parents {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", child)); p == parent && err == nil && exe == program {
			add(child)
		}
	}
	return pids
}

// peak is the peak of a process's memory, in bytes.
func peak(pid int) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kb, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return kb * 1024
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

// group is a world with a group of n nodes, which is not deployed.
func group(b *testing.B, n int) *world.World {
	b.Helper()
	w := world.New(b)
	var nodes []world.Node
	for i := range n {
		nodes = append(nodes, world.Node{Name: fmt.Sprintf("node%03d", i), Image: lab.Image{Content: "one"}})
	}
	w.Group(nodes...)
	return w
}

// A group that is deployed, planned with nothing to do and taken down, against
// stock tofu on the exported graph with the same providers as its plugins.
func BenchmarkGroup(b *testing.B) {
	for _, n := range []int{10, 100} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			w := group(b, n)
			stock := w.Stock()
			destroy := func() { w.Must(0, "k8s", "destroy", "-auto-approve", "-parallelism=20") }
			// The first deploy pushes the images, which then are there for both.
			w.Must(0, "k8s", "apply", "-auto-approve", "-parallelism=20")
			destroy()
			for b.Loop() {
				tofu := measure(b, stock.Command("apply", "-auto-approve", "-parallelism=20"))
				destroy()
				yuba := measure(b, w.Command("k8s", "apply", "-auto-approve", "-parallelism=20"))
				report(b, "apply-", []cost{yuba}, []cost{tofu})
				var yubas, tofus []cost
				for range max(2, 70/n) {
					yubas = append(yubas, measure(b, w.Command("k8s", "plan", "-detailed-exitcode")))
					tofus = append(tofus, measure(b, stock.Command("plan", "-detailed-exitcode")))
				}
				report(b, "noop-", yubas, tofus)
				requests := w.CountRequests()
				w.Must(0, "k8s", "plan", "-detailed-exitcode")
				list := requests.List()
				b.ReportMetric(float64(len(list)), "noop-requests")
				b.Logf("a no-op plan of %d nodes asks:\n  %s", n, strings.Join(list, "\n  "))
			}
			destroy()
		})
	}
}

// report gives the medians of both, the figures' names after a prefix.
func report(b *testing.B, prefix string, yuba, tofu []cost) {
	b.ReportMetric(0, "ns/op") // of the benchmark's own loop; it says nothing
	b.ReportMetric(median(yuba, cpu).Seconds(), prefix+"yuba-cpu-s")
	b.ReportMetric(median(yuba, wall).Seconds(), prefix+"yuba-wall-s")
	b.ReportMetric(float64(median(yuba, rss))/1e6, prefix+"yuba-MB")
	if tofu == nil {
		return
	}
	b.ReportMetric(median(tofu, cpu).Seconds(), prefix+"tofu-cpu-s")
	b.ReportMetric(median(tofu, wall).Seconds(), prefix+"tofu-wall-s")
	b.ReportMetric(float64(median(tofu, rss))/1e6, prefix+"tofu-MB")
	b.ReportMetric(median(yuba, cpu).Seconds()/median(tofu, cpu).Seconds(), prefix+"cpu-ratio")
	b.ReportMetric(median(yuba, wall).Seconds()/median(tofu, wall).Seconds(), prefix+"wall-ratio")
	b.ReportMetric(float64(median(yuba, rss))/float64(median(tofu, rss)), prefix+"rss-ratio")
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
		for range 21 {
			costs = append(costs, measure(b, run()))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(median(costs, cpu).Seconds(), "cpu-s")
		b.ReportMetric(float64(median(costs, rss))/1e6, "MB-RSS")
		b.ReportMetric(float64(info.Size())/1e6, "MB-file")
	}
}
