package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"fediversity.eu/yuba/providers/kubernetes"
)

func doctorCommand() command {
	return command{
		name:    "k8s doctor",
		args:    "[FLAGS]",
		summary: "Look whether the cluster has what the group needs, before a first deploy.",
		env:     clusterEnvironment(),
		about: `Looks at the server's version, the RuntimeClass, the nodes' container runtimes, user namespaces, StorageClasses, what enforces
NetworkPolicy, and what the kubeconfig's user may do. It changes nothing.

Exit codes: 0 nothing is missing, 1 error, 2 something is missing. What the API server does not tell is "unknown" and not missing.`,
		example: "yuba k8s doctor -group=group.json",
		setup:   k8sDoctor,
	}
}

func k8sDoctor(f *flag.FlagSet) action {
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
		o := kubernetes.DoctorOptions{Namespace: namespace, RuntimeClass: group.RuntimeClass, Spire: group.Spire != nil}
		for _, n := range group.EnabledNodes() {
			o.StorageClasses = append(o.StorageClasses, n.Storage.Class)
		}
		findings, err := c.Doctor(ctx, o)
		if err != nil {
			return err
		}
		healthy := !slices.ContainsFunc(findings, func(f kubernetes.Finding) bool { return f.Verdict == kubernetes.FindingMissing })
		if *asJSON {
			err = printJSON(p.stdout, struct {
				Healthy  bool                 `json:"healthy"`
				Findings []kubernetes.Finding `json:"findings"`
			}{healthy, findings})
		} else {
			err = writeFindings(p.stdout, findings)
		}
		if err == nil && !healthy {
			return exitCode(2)
		}
		return err
	}
}

// writeFindings prints a line for each finding, and below it what to do.
func writeFindings(w io.Writer, findings []kubernetes.Finding) error {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%-8s %s: %s\n", f.Verdict, f.Check, f.Message)
		if f.Advice != "" {
			fmt.Fprintf(&b, "         -> %s\n", f.Advice)
		}
	}
	_, err := io.WriteString(w, kubernetes.PlainText(b.String()))
	return err
}
