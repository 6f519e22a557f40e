package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"fediversity.eu/yuba/test/faults/life"
	"fediversity.eu/yuba/test/faults/proxy"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// Two operators apply two group files at once: one after the other, or one of them
// not at all, and the state tells what there is.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	l := life.Born(t)
	l.Alone = true
	l.First()
	l.Must(0, life.Apply...)
	l.Nodes(lab.Image{Content: "three"})
	if err := os.Rename(filepath.Join(l.Dir, "group.json"), filepath.Join(l.Dir, "other.json")); err != nil {
		t.Fatal(err)
	}
	l.Second()
	other := []string{"-group=other.json"}
	both := func() (first, second world.Result) {
		taken, asked := make(chan struct{}), make(chan struct{})
		p := l.Launch(l.Command(life.Apply...), func(_ *life.Process, at proxy.Point) proxy.Harm {
			switch {
			case at.Method != "LOCK":
				// The first goes no further until the second has asked for the lock.
				select {
				case <-asked:
				case <-t.Context().Done():
				}
			case at.Moment == proxy.After && at.N == 1:
				close(taken)
			case at.Moment == proxy.After && at.N == 2:
				close(asked)
			}
			return proxy.Harm{}
		})
		<-taken
		waiting := l.Command(slices.Concat(life.Apply, other)...)
		waiting.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // not to be left behind
		second = world.Run(t, waiting)
		<-p.Ended
		l.Proxy.Watch(nil)
		return p.Result(), second
	}

	a, b := both()
	text := world.Unwrapped(b.Stderr)
	if a.Code != 0 || b.Code != 1 {
		t.Fatalf("one should get through, and the other not: %v\n%v", a, b)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"Error acquiring the state lock", "@" + host, "for OperationTypeApply", "yuba force-unlock "} {
		if !strings.Contains(text, word) {
			t.Errorf("it does not say %q: %v", word, b)
		}
	}
	l.Settled()
	l.Must(2, slices.Concat(life.Plan, other)...)

	l.First() // so that both have something to do
	other = append(other, "-lock-timeout=5m")
	a, b = both()
	if a.Code != 0 || b.Code != 0 {
		t.Fatalf("both have time enough: %v\n%v", a, b)
	}
	if !strings.Contains(b.Stderr, "@"+host+" holds it since") {
		t.Errorf("it does not say for whom it waits: %v", b)
	}
	l.Must(0, slices.Concat(life.Plan, other)...)
	l.Truthful()
	l.Must(2, life.Plan...)
	l.Free()
}
