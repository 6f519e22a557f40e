package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fediversity.eu/yuba/method/k8s"
	"fediversity.eu/yuba/providers/kubernetes"
)

// operatorCommands look at the nodes of a group and set them right between
// deploys. They ask the cluster alone.
func operatorCommands() []command {
	return []command{
		{
			name:    "k8s status",
			args:    "[FLAGS]",
			summary: "Show how the group's nodes are, and why one is not ready.",
			env:     clusterEnvironment(),
			about: `Per node: its state, the age of its pod, the digests of the image that was applied last, that of the pod and the last good one
(that of the last complete rollout, to which a node is set back), its claim and its pod. Below a node that is not well is
the reason, with the failed units and the last lines of their journals.

Exit codes: 0 all nodes are well, 1 error, 2 at least one is not.`,
			example: "yuba k8s status -group=group.json",
			setup:   k8sStatus,
		},
		{
			name:    "k8s logs",
			args:    "[FLAGS] NODE",
			summary: "Print the log of a node: systemd's console.",
			env:     clusterEnvironment(),
			about:   "On a terminal, control sequences in the log are left out.",
			example: "yuba k8s logs -f -n=100 web",
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
	}
}

// clusterEnvironment is what the verbs on the cluster alone read.
func clusterEnvironment() []variable {
	return slices.DeleteFunc(graphEnvironment(), func(v variable) bool { return v.name == "K8S_REGISTRY" })
}

// place is where a group's nodes are.
func (g *groupFlags) place(ctx context.Context, p process) (group *k8s.Group, namespace string, err error) {
	env, err := k8s.EnvFrom(func(name string) string {
		if name == "K8S_REGISTRY" {
			return "none.invalid" // nothing here asks a registry
		}
		return p.getenv(name)
	})
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
		return nil, "", "", fmt.Errorf("the group has no node %q; it has: %s", args[0], strings.Join(group.NodeNames(), ", "))
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
		if err := noArgs(args); err != nil {
			return err
		}
		group, namespace, err := g.place(ctx, p)
		if err != nil {
			return err
		}
		c, err := p.cluster()
		if err != nil {
			return err
		}
		nodes, err := c.Status(ctx, namespace, group.NodeNames(), kubernetes.StatusOptions{})
		if err != nil {
			return err
		}
		if *asJSON {
			e := json.NewEncoder(p.stdout)
			e.SetIndent("", "  ")
			err = e.Encode(struct {
				Namespace string            `json:"namespace"`
				Well      bool              `json:"well"`
				Nodes     []kubernetes.Node `json:"nodes"`
			}{namespace, allWell(nodes), nodes})
		} else {
			err = writeStatus(p.stdout, nodes, time.Now(), true)
		}
		if err == nil && !allWell(nodes) {
			return exitCode(2)
		}
		return err
	}
}

func allWell(nodes []kubernetes.Node) bool {
	return !slices.ContainsFunc(nodes, func(n kubernetes.Node) bool { return !n.Well() })
}

// writeStatus prints a line for each node, and below those that are not well
// the reasons; the details, too, when they are wanted.
func writeStatus(w io.Writer, nodes []kubernetes.Node, now time.Time, details bool) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tSTATE\tAGE\tWANTED\tRUNS\tLAST GOOD\tCLAIM\tPOD")
	for _, n := range nodes {
		age := "-"
		if n.Since != nil {
			age = shortAge(now.Sub(*n.Since))
		}
		state := string(n.State)
		if n.State == kubernetes.Ready && !n.Well() {
			state = "drifted"
		}
		// Its name is the node's, and what the cluster appends.
		pod := strings.TrimPrefix(n.Pod, n.Name+"-")
		fmt.Fprintln(table, strings.Join([]string{n.Name, state, age, shortDigest(n.Wanted), shortDigest(n.Running), shortDigest(n.LastGood),
			cmp.Or(n.Volume, "-"), cmp.Or(pod, "-")}, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Well() {
			continue
		}
		lines := n.Drift
		if n.Reason != "" {
			lines = append([]string{n.Reason}, lines...)
		}
		if details {
			lines = append(lines, n.Details...)
		}
		if details || len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s: %s\n", n.Name, strings.Join(lines, "\n  "))
		}
	}
	_, err := io.WriteString(w, kubernetes.PlainText(b.String()))
	return err
}

// shortDigest is what tells images apart in a table.
func shortDigest(image string) string {
	if image == "" {
		return "-"
	}
	if _, digest, ok := strings.Cut(image, "@sha256:"); ok {
		return digest[:min(8, len(digest))]
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
// that failed before it touched a node, and one whose output a program reads,
// have none. One of a saved plan has it when the group file lies where it is
// looked for.
func (k *k8sFlags) summarize(ctx context.Context, p process, s *session, err error) error {
	if err == nil || k.view.json || !alreadyReported(err) {
		return err
	}
	s.close() // its lines are rewritten in place
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
	nodes, serr := c.Status(ctx, namespace, group.NodeNames(), kubernetes.StatusOptions{Brief: true})
	untouched := !slices.ContainsFunc(nodes, func(n kubernetes.Node) bool { return n.State != kubernetes.Missing })
	if serr != nil || untouched || allWell(nodes) {
		return err // the first error says it all
	}
	fmt.Fprintf(p.stderr, "\nThe nodes of group %s in namespace %s are now:\n", group.Name, namespace)
	if werr := writeStatus(p.stderr, nodes, time.Now(), false); werr != nil {
		return werr
	}
	return err
}
