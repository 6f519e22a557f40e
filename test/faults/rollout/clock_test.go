package rollout

import (
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fediversity.eu/yuba/test/faults/life"
	"fediversity.eu/yuba/test/lab"
	"fediversity.eu/yuba/test/world"
)

// Clocks that are wrong, and clocks that jump, shorten and lengthen no wait: what
// is waited for is timed by this process alone.
func TestClocks(t *testing.T) {
	t.Parallel()
	var tick atomic.Int64
	const day = 26 * time.Hour
	for name, ahead := range map[string]func() time.Duration{
		"servers ahead":  func() time.Duration { return day },
		"servers behind": func() time.Duration { return -day },
		"jumps":          func() time.Duration { return time.Duration(tick.Add(1)%3-1) * day },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := life.Astray(t, ahead)
			l.First()
			l.Must(0, life.Apply...)
			l.Nodes(lab.Image{Content: "two", ReadyAfter: 8 * time.Second})
			began := time.Now()
			l.Must(0, life.Apply...)
			if took := time.Since(began); took < 8*time.Second {
				t.Errorf("the pod is ready after 8s, and the rollout was complete after %v", took)
			}
			l.Settled()
			l.Nodes(lab.Image{Behaviour: lab.ConfigError})
			l.Edit(func(g map[string]any) { g["persistence"] = "4s" })
			began = time.Now()
			r := l.Must(1, life.Apply...)
			text := world.Unwrapped(r.Stderr)
			if took := time.Since(began); took < 4*time.Second {
				t.Errorf("it was given up after %v: %v", took, r)
			}
			for _, word := range []string{"CreateContainerConfigError", "it was given up after 4s", "was set back to the last image whose rollout was complete, " + l.Good + ", and that is ready again"} {
				if !strings.Contains(text, word) {
					t.Errorf("it lacks %q: %v", word, r)
				}
			}
			// Where times of one answer jump, its pods can have any age.
			if s := l.Must(2, "k8s", "status"); name != "jumps" && regexp.MustCompile(`\s[0-9]+[hd]\s`).MatchString(s.Stdout) {
				t.Errorf("a pod is older than this test: %v", s)
			}
			l.Must(0, life.Destroy...)
			l.Gone()
		})
	}
}
