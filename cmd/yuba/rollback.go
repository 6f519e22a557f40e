package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"fediversity.eu/yuba/cmd/yuba/live"
	"fediversity.eu/yuba/providers/kubernetes"
)

func k8sRollback(f *flag.FlagSet) action {
	var g groupFlags
	g.register(f)
	approve := f.Bool("auto-approve", false, "do not ask before changing anything")
	noColor := f.Bool("no-color", false, "print without colour, as with NO_COLOR in the environment")
	timeout := f.Duration("timeout", 0, "how long the pod may take to become ready, a `duration` such as 5m\n(default: rolloutTimeout of the group)")
	return func(ctx context.Context, p process, args []string) error {
		group, namespace, node, err := g.node(ctx, p, args)
		if err != nil {
			return err
		}
		within := group.RolloutTimeout
		if *timeout < 0 {
			return usagef("-timeout=%s: a time to wait is needed", *timeout)
		} else if *timeout > 0 {
			within = *timeout
		}
		display := p.display(viewFlags{noColor: *noColor})
		defer display.Close()
		c, err := p.cluster(kubernetes.WithPersistence(group.Persistence), kubernetes.WithProgress(func(_, name, message string) { display.Message(name, message) }))
		if err != nil {
			return err
		}
		good, now, err := c.LastGood(ctx, namespace, node)
		work, doing := c.Rollback, "rolling back"
		switch {
		case errors.Is(err, kubernetes.ErrNothingToRollBack):
			nodes, serr := c.Status(ctx, namespace, []string{node}, kubernetes.StatusOptions{})
			if serr != nil {
				return serr
			}
			if nodes[0].Ready {
				fmt.Fprintf(p.stdout, "%s: nothing to do, %v.\nAn older image comes back by an apply of the group file that had it.\n", node, err)
				return nil
			}
			work, doing = c.Await, "waiting" // a rollback that was ended early has done the rest
		case err != nil:
			return err
		default:
			fmt.Fprintf(p.stdout, "%s in namespace %s\n  from %s\n  to   %s\n", node, namespace, now, good)
			if err := p.approved(*approve); err != nil {
				return err
			}
		}
		ctx, done := p.interruptible(ctx)
		defer done()
		display.Event(live.Event{Line: node, Doing: doing})
		err = work(ctx, namespace, node, within)
		end := live.Event{Line: node, Phase: live.Done, End: "ready"}
		if err != nil {
			end.Phase, end.End = live.Failed, "not ready"
		}
		display.Event(end)
		display.Close()
		if errors.Is(err, errInterrupted) { // before the answer to the change
			return fmt.Errorf("%s: interrupted; 'yuba k8s status' tells which image it has", node)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
		fmt.Fprintf(p.stdout, "%s runs its last good image again, and is ready. The next apply tries what the group file says.\n", node)
		return nil
	}
}

// approved asks whether a node is to be rolled back, unless that is said already.
func (p process) approved(already bool) error {
	if already {
		return nil
	}
	fmt.Fprint(p.stdout, "\nRoll it back? Only 'yes' is accepted: ")
	answer, err := bufio.NewReader(p.stdin).ReadString('\n')
	if strings.TrimSpace(answer) == "yes" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(p.stdout)
	}
	return errors.New("not approved, nothing was changed; -auto-approve does not ask")
}
