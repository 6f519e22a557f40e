package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fediversity.eu/yuba/method/k8s"
	"fediversity.eu/yuba/providers/kubernetes"
)

// operatorCommands look at the nodes of a group and set them right between
// deploys. They ask the cluster alone.
func operatorCommands() []command {
	return []command{
		{
			name:    "k8s status",
			args:    "[FLAGS] [NODE...]",
			summary: "Show how the group's nodes are, and why one is not ready.",
			env:     clusterEnvironment(),
			about: `Per node: its state, whether its pod is ready and how old that is, the first digits of the digests of the image that was
applied last, that of the pod and the last good one (that of the last complete rollout, to which a node is set back), its claim,
its pod, and the cluster's node that has it. A terminal that is too narrow for all has fewer columns. Below a node that
is not well is the reason, with the failed units and the last lines of their journals, and what somebody else changed.

Exit codes: 0 all nodes are well, 1 error, 2 at least one is not.`,
			example: "yuba k8s status -group=group.json",
			setup:   k8sStatus,
		},
		{
			name:    "k8s logs",
			args:    "[FLAGS] NODE",
			summary: "Print the log of a node: systemd's console, or the journal.",
			env:     clusterEnvironment(),
			about:   "On a terminal, control sequences in the log are left out.",
			example: "yuba k8s logs -f -tail=100 web\nyuba k8s logs -since=10m -u=nginx.service web",
			setup:   k8sLogs,
		},
		{
			name:    "k8s rollback",
			args:    "[FLAGS] NODE",
			summary: "Set a node back to its last good image, and wait for it.",
			env:     clusterEnvironment(),
			about: `The last good image is that of the last rollout that an apply has seen to its end. The state stays as it is: the next
plan shows the node as still to do, and the next apply tries what the group file says.`,
			example: "yuba k8s rollback -auto-approve web",
			setup:   k8sRollback,
		},
		doctorCommand(),
	}
}

// clusterEnvironment is what the verbs on the cluster alone read.
func clusterEnvironment() []variable {
	return without("K8S_REGISTRY", environment()[:3])
}

// place is where a group's nodes are.
func (g *groupFlags) place(ctx context.Context, p process) (group *k8s.Group, namespace string, err error) {
	env, err := k8s.EnvFrom(p.getenv, k8s.NeedsCluster)
	if err != nil {
		return nil, "", err
	}
	if group, err = g.read(ctx, nil); err != nil {
		return nil, "", err
	}
	namespace, err = group.Namespace(env)
	return group, namespace, err
}

// node is place with the one node that is named.
func (g *groupFlags) node(ctx context.Context, p process, args []string) (group *k8s.Group, namespace, node string, err error) {
	if len(args) != 1 {
		return nil, "", "", usagef("one node is needed")
	}
	if group, namespace, err = g.place(ctx, p); err != nil {
		return nil, "", "", err
	}
	if !slices.Contains(group.NodeNames(), args[0]) {
		return nil, "", "", noSuchNode(args[0], group.NodeNames())
	}
	return group, namespace, args[0], nil
}

// cluster connects to the cluster for an operator's command.
func (p process) cluster(opts ...kubernetes.Option) (*kubernetes.Cluster, error) {
	return kubernetes.Open(version, append([]kubernetes.Option{kubernetes.WithEnv(p.getenv)}, opts...)...)
}

func k8sStatus(f *flag.FlagSet) action {
	var g groupFlags
	g.register(f)
	asJSON := f.Bool("json", false, "print JSON")
	return func(ctx context.Context, p process, args []string) error {
		group, namespace, err := g.place(ctx, p)
		if err != nil {
			return err
		}
		names := group.NodeNames()
		if len(args) > 0 {
			if names, err = chosen(group, args); err != nil {
				return err
			}
		}
		c, err := p.cluster()
		if err != nil {
			return err
		}
		ctx, done := p.interruptible(ctx)
		defer done()
		nodes, err := c.Status(ctx, namespace, names, kubernetes.StatusOptions{})
		if err != nil {
			return interrupted(ctx, err)
		}
		if *asJSON {
			err = printJSON(p.stdout, statusResult{statusFormat, namespace, allWell(nodes), nodes})
		} else {
			err = writeStatus(p.stdout, nodes, view{now: c.Now(), width: p.width(p.stdout), details: true})
		}
		if err == nil && !allWell(nodes) {
			return exitCode(2)
		}
		return err
	}
}

// statusFormat is the version of statusResult: the second number grows with new
// fields, the first with any other change.
const statusFormat = "1.0"

// statusResult is what 'yuba k8s status -json' prints; docs/k8s.md describes it.
type statusResult struct {
	FormatVersion string            `json:"format_version"`
	Namespace     string            `json:"namespace"`
	Well          bool              `json:"well"`
	Nodes         []kubernetes.Node `json:"nodes"`
}

// printJSON prints what -json asks for, to be read by humans, too.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// chosen are the named nodes of a group, in the group's order.
func chosen(group *k8s.Group, names []string) ([]string, error) {
	all := group.NodeNames()
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, noSuchNode(n, all)
		}
	}
	return slices.DeleteFunc(all, func(n string) bool { return !slices.Contains(names, n) }), nil
}

func noSuchNode(name string, all []string) error {
	return fmt.Errorf("the group has no node %q%s; it has: %s", name, didYouMean(name, all), strings.Join(all, ", "))
}

func allWell(nodes []kubernetes.Node) bool {
	return !slices.ContainsFunc(nodes, func(n kubernetes.Node) bool { return !n.Well() })
}

// view says how a table is shown.
type view struct {
	now     time.Time
	width   int // columns; 0 when no terminal limits them
	details bool
}

// statusColumns are those of the table. Where there is no room for all, the ones
// with the lowest rank go first; rank 0 stays.
var statusColumns = []struct {
	title string
	rank  int
}{
	{"NODE", 0}, {"STATE", 0}, {"READY", 3}, {"AGE", 4}, {"WANTED", 0}, {"RUNS", 0}, {"LAST GOOD", 5}, {"CLAIM", 2}, {"POD", 1}, {"HOST", 1},
}

// writeStatus prints a line for each node, and below those that are not well
// the reasons; the details, too, when they are wanted.
func writeStatus(w io.Writer, nodes []kubernetes.Node, v view) error {
	rows := func(digits int) [][]string {
		var out [][]string
		for _, n := range nodes {
			out = append(out, statusRow(n, v.now, digits))
		}
		return out
	}
	text, fits := layOut(rows(longDigest), v.width, 0)
	for rank := 0; !fits && rank <= 5; rank++ {
		text, fits = layOut(rows(shortest), v.width, rank)
	}
	var b strings.Builder
	b.WriteString(text)
	for _, n := range nodes {
		if n.Well() {
			continue
		}
		lines := n.Drift
		if n.Reason != "" {
			lines = append([]string{n.Reason}, lines...)
		}
		if v.details {
			lines = append(lines, n.Details...)
		}
		if v.details || len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s: %s\n", n.Name, strings.Join(lines, "\n  "))
		}
	}
	_, err := io.WriteString(w, kubernetes.PlainText(b.String()))
	return err
}

// Digits of a digest that tell images apart, where there is room and where there
// is none.
const longDigest, shortest = 12, 8

func statusRow(n kubernetes.Node, now time.Time, digits int) []string {
	age := ""
	if n.Since != nil {
		age = shortAge(now.Sub(*n.Since))
	}
	state, ready := string(n.State), "no"
	if n.State == kubernetes.Ready && !n.Well() {
		state = "drifted"
	}
	if n.Ready {
		ready = "yes"
	}
	row := []string{n.Name, state, ready, age, shortDigest(n.Wanted, digits), shortDigest(n.Running, digits), shortDigest(n.LastGood, digits), n.Volume,
		// Its name is the node's, and what the cluster appends.
		strings.TrimPrefix(n.Pod, n.Name+"-"), n.Host}
	for i := range row {
		row[i] = kubernetes.PlainText(cmp.Or(row[i], "-"))
	}
	return row
}

// layOut is the table without the columns of ranks from 1 to this one, and
// whether it fits.
func layOut(rows [][]string, width, rank int) (string, bool) {
	lines := make([]strings.Builder, len(rows)+1)
	total := -2
	for i, c := range statusColumns {
		if 0 < c.rank && c.rank <= rank {
			continue
		}
		widest := utf8.RuneCountInString(c.title)
		for _, r := range rows {
			widest = max(widest, utf8.RuneCountInString(r[i]))
		}
		total += widest + 2
		for j := range lines {
			cell := c.title
			if j > 0 {
				cell = rows[j-1][i]
			}
			lines[j].WriteString(cell + strings.Repeat(" ", widest-utf8.RuneCountInString(cell)+2))
		}
	}
	var b strings.Builder
	for i := range lines {
		b.WriteString(strings.TrimRight(lines[i].String(), " ") + "\n")
	}
	return b.String(), width == 0 || total <= width
}

// shortDigest is what tells images apart in a table.
func shortDigest(image string, digits int) string {
	if _, digest, ok := strings.Cut(image, "@sha256:"); ok {
		return digest[:min(digits, len(digest))]
	}
	return image[strings.LastIndex(image, "/")+1:]
}

func shortAge(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// summaryTime bounds the look at the cluster after a failure.
const summaryTime = 15 * time.Second

// summarize shows, after an apply that failed, how each node is now. An apply
// that failed before it touched a node has none. One of a saved plan has it when
// the group file lies where it is looked for.
func (k *k8sFlags) summarize(ctx context.Context, p process, s *session, err error) error {
	if err == nil || !alreadyReported(err) || s.Interrupted() {
		return err
	}
	s.display.Close() // its lines are rewritten in place
	group, namespace, perr := k.group.place(ctx, p)
	if perr != nil {
		return err
	}
	c, cerr := p.cluster()
	if cerr != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, summaryTime)
	defer cancel()
	cancelOnInterrupt(ctx, s.interrupts, cancel)
	nodes, serr := c.Status(ctx, namespace, group.NodeNames(), kubernetes.StatusOptions{Brief: true})
	untouched := !slices.ContainsFunc(nodes, func(n kubernetes.Node) bool { return n.State != kubernetes.Missing })
	if serr != nil || untouched || allWell(nodes) {
		return err // the first error says it all
	}
	var werr error
	switch {
	case k.view.json:
		return errors.Join(err, streamNodes(p.stdout, nodes, time.Now()))
	case s.into != nil:
		werr = streamNodes(s.into, nodes, time.Now())
	}
	fmt.Fprintf(p.stderr, "\nThe nodes of group %s in namespace %s are now:\n", group.Name, namespace)
	return errors.Join(err, werr, writeStatus(p.stderr, nodes, view{now: c.Now(), width: p.width(p.stderr)}))
}

// nodeMessage is a line of the machine-readable stream: the envelope is
// OpenTofu's, type and content are our own; docs/k8s.md describes it.
type nodeMessage struct {
	Level     string          `json:"@level"`
	Message   string          `json:"@message"`
	Module    string          `json:"@module"`
	Timestamp string          `json:"@timestamp"`
	Type      string          `json:"type"`
	Node      kubernetes.Node `json:"node"`
}

// streamNodes writes a line for each node.
func streamNodes(w io.Writer, nodes []kubernetes.Node, now time.Time) error {
	lines := json.NewEncoder(w)
	for _, n := range nodes {
		m := nodeMessage{Level: "info", Message: n.Name + ": " + string(n.State), Module: "yuba.k8s",
			Timestamp: now.Format("2006-01-02T15:04:05.000000Z07:00"), Type: "node_status", Node: n}
		if !n.Well() {
			m.Level = "error"
			if n.Reason != "" {
				m.Message += ": " + n.Reason
			}
		}
		if err := lines.Encode(m); err != nil {
			return err
		}
	}
	return nil
}
