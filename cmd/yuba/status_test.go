package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fediversity.eu/yuba/providers/kubernetes"
	"fediversity.eu/yuba/test/golden"
)

func TestStatusTable(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	image := func(digest string) string {
		return "registry.example:5000/fediversity/web@sha256:" + strings.Repeat(digest, 16)
	}
	nodes := []kubernetes.Node{
		{Name: "database", State: kubernetes.SetBack, Wanted: image("6dc8"), Running: image("130d"), LastGood: image("130d"), Pod: "database-7f8c64d9b8-8mplp",
			Since: ago(90 * time.Second), Volume: "Bound 10Gi", Reason: "generation 2 did not become ready (0/1 ready: running, not ready)"},
		{Name: "new", State: kubernetes.Missing, Reason: "there is no Deployment of this name"},
		{Name: "mail", State: kubernetes.NotReady, Wanted: image("6dc8"), Running: image("6dc8"), Pod: "mail-1-2", Since: ago(3 * time.Hour),
			Reason: "0/1 ready: running, not ready", Details: []string{"failed unit postfix.service: \x1b[31mMail", "  \x1b]0;title\x07bind: address in use"}},
		{Name: "shop", State: kubernetes.Ready, Wanted: image("aaaa"), Running: image("aaaa"), LastGood: image("69fb"), Pod: "shop-1-2", Since: ago(50 * time.Hour),
			Volume: "Bound 1Gi", Drift: []string{"kubectl-set changed the image to x"}},
		{Name: "web", State: kubernetes.Ready, Wanted: image("69fb"), Running: image("69fb"), LastGood: image("69fb"), Pod: "web-6bd76fff65-hhrml", Since: ago(5 * time.Minute), Volume: "Bound 1Gi", Ready: true, Host: "worker-1"},
	}
	var b strings.Builder
	// A terminal of 80 columns, a wide one, and none.
	for _, width := range []int{80, 140, 0} {
		fmt.Fprintf(&b, "== %d\n", width)
		if err := writeStatus(&b, nodes, view{now: now, width: width, details: width == 80}); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(b.String()[:strings.Index(b.String(), "\n\n")]) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("too wide: %s", line)
		}
	}
	golden.Check(t, "testdata/status.txt", b.String())
	if allWell(nodes) || !allWell(nodes[4:]) {
		t.Error("who is well")
	}
}

// What -json prints is what the documentation says.
func TestJSONOfStatusIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/k8s.md")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := kubernetes.Node{Name: "web", Since: &at, Details: []string{}, Drift: []string{}}
	for _, value := range []any{statusResult{}, node} {
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("docs/k8s.md doesn't tell of %s", name)
			}
		}
	}
	var b strings.Builder
	if err := streamNodes(&b, []kubernetes.Node{{Name: "web", State: kubernetes.SetBack, Reason: "it crashed", Details: []string{}, Drift: []string{}}}, at); err != nil {
		t.Fatal(err)
	}
	want := `{"@level":"error","@message":"web: set back: it crashed","@module":"yuba.k8s","@timestamp":"2026-01-02T03:04:05.000000Z","type":"node_status","node":` +
		`{"name":"web","state":"set back","wanted":"","running":"","lastGood":"","ready":false,"pod":"","host":"","since":null,"claim":"","volume":"","reason":"it crashed","details":[],"drift":[]}}` + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestSuggestions(t *testing.T) {
	names := []string{"plan", "apply", "destroy", "status", "logs"}
	for typed, want := range map[string]string{"aply": "apply", "paln": "plan", "log": "logs", "statsu": "status", "deploy": "", "x": ""} {
		if want != "" {
			want = fmt.Sprintf(" (did you mean %q?)", want)
		}
		if got := didYouMean(typed, names); got != want {
			t.Errorf("%s: got %q", typed, got)
		}
	}
}

func TestLogOnATerminal(t *testing.T) {
	var b strings.Builder
	w := &plainLines{w: &b}
	// A sequence may come in two pieces.
	for _, piece := range []string{"one\x1b[3", "1m red\x1b[0m\r\ntw", "o"} {
		if _, err := w.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	if b.String() != "one red\ntwo\n" {
		t.Errorf("%q", b.String())
	}
}
