package main

import (
	"strings"
	"testing"
	"time"

	"fediversity.eu/yuba/providers/kubernetes"
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
		{Name: "web", State: kubernetes.Ready, Wanted: image("69fb"), Running: image("69fb"), LastGood: image("69fb"), Pod: "web-6bd76fff65-hhrml", Since: ago(5 * time.Minute), Volume: "Bound 1Gi"},
	}
	var b strings.Builder
	if err := writeStatus(&b, nodes, now, true); err != nil {
		t.Fatal(err)
	}
	want := `NODE      STATE      AGE  WANTED    RUNS      LAST GOOD  CLAIM       POD
database  set back   90s  6dc86dc8  130d130d  130d130d   Bound 10Gi  7f8c64d9b8-8mplp
new       missing    -    -         -         -          -           -
mail      not ready  3h   6dc86dc8  6dc86dc8  -          -           1-2
shop      drifted    2d   aaaaaaaa  aaaaaaaa  69fb69fb   Bound 1Gi   1-2
web       ready      5m   69fb69fb  69fb69fb  69fb69fb   Bound 1Gi   6bd76fff65-hhrml

database: generation 2 did not become ready (0/1 ready: running, not ready)

new: there is no Deployment of this name

mail: 0/1 ready: running, not ready
  failed unit postfix.service: Mail
    bind: address in use

shop: kubectl-set changed the image to x
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if allWell(nodes) || !allWell(nodes[4:]) {
		t.Error("who is well")
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
