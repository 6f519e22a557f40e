package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fediversity.eu/yuba/providers/internal/text"
	"fediversity.eu/yuba/providers/kubernetes/internal/client"
)

// What the API server holds of a pod says that it isn't ready; why, only the pod
// itself knows: its systemd, and the log of its container. Both are asked once,
// when a verdict is given, in bounded time and for bounded text.
const (
	insideTime  = 20 * time.Second // for all questions
	commandTime = 5 * time.Second  // for one
	insideBytes = 64 << 10         // of one answer
	maxUnits    = 5                // whose journal is read
	lastLines   = 20               // of a journal or log
	maxColumns  = 400              // of a line
)

// inside gives what a pod that isn't ready says of itself, in lines. A question
// that got no answer is a line too, and never an error: the verdict stands.
func inside(ctx context.Context, c *client.Client, pod client.Object) []string {
	if pod == nil || ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, insideTime)
	defer cancel()
	q := question{client: c, namespace: metaString(pod, "namespace"), pod: metaString(pod, "name")}
	status, _ := pod["status"].(client.Object)
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		list, _ := status[field].([]any)
		for _, it := range list {
			s, _ := it.(client.Object)
			state, _ := s["state"].(client.Object)
			last, _ := s["lastState"].(client.Object)
			q.container, _ = s["name"].(string)
			ready, _ := s["ready"].(bool)
			ended, _ := state["terminated"].(client.Object)
			code, _ := ended["exitCode"].(int64)
			switch {
			case state["running"] != nil && !ready && last["terminated"] != nil:
				// It has crashed: why, is in what it said then.
				return append(q.log(ctx, true, "container "+q.container+", before it ended"), q.systemd(ctx)...)
			case state["running"] != nil && !ready:
				return q.systemd(ctx)
			case ended != nil && code != 0:
				return q.log(ctx, false, "container "+q.container+", before it ended")
			case state["waiting"] != nil && last["terminated"] != nil:
				return q.log(ctx, true, "container "+q.container+", before it ended")
			}
		}
	}
	return nil
}

// question is put to one container.
type question struct {
	client                    *client.Client
	namespace, pod, container string
}

func (q question) run(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("no answer within %s", commandTime))
	defer cancel()
	out, err := q.client.Exec(ctx, q.namespace, q.pod, q.container, command, insideBytes)
	return text.Plain(string(out)), err
}

// systemd asks for the failed units and their journals; where there are none,
// for what systemd is at, and for the log.
func (q question) systemd(ctx context.Context) []string {
	state, err := q.run(ctx, "systemctl", "is-system-running")
	var exit *client.ExitError
	state = strings.TrimSpace(state)
	if err != nil && !(errors.As(err, &exit) && state != "") {
		return append([]string{"systemd in the pod could not be asked: " + refusal(err, "create and get on pods/exec")},
			q.log(ctx, false, "container "+q.container)...)
	}
	lines := []string{"systemd in the pod is " + state}
	out, err := q.run(ctx, "systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager", "--full")
	if err != nil {
		return append(lines, "its failed units could not be asked for: "+refusal(err, ""))
	}
	units, about := failedUnits(out)
	for i, unit := range units {
		if i == maxUnits {
			lines = append(lines, fmt.Sprintf("and %d more failed units: %s", len(units)-i, strings.Join(units[i:], ", ")))
			break
		}
		lines = append(lines, strings.TrimSuffix("failed unit "+unit+": "+about[i], ": "))
		journal, err := q.run(ctx, "journalctl", "-u", unit, "-n", fmt.Sprint(lastLines), "-o", "cat", "--no-pager")
		if err != nil {
			lines = append(lines, "  its journal could not be read: "+refusal(err, ""))
			continue
		}
		lines = append(lines, tail(journal)...)
	}
	if len(units) > 0 {
		return lines
	}
	if out, err := q.run(ctx, "systemctl", "list-jobs", "--no-legend", "--no-pager", "--full"); err == nil {
		for _, job := range tail(out) {
			lines = append(lines, "  job "+strings.Join(strings.Fields(job), " "))
		}
	}
	return append(lines, q.log(ctx, false, "container "+q.container)...)
}

// failedUnits reads what systemctl lists: UNIT LOAD ACTIVE SUB DESCRIPTION.
func failedUnits(out string) (units, about []string) {
	for line := range strings.Lines(out) {
		f := strings.Fields(strings.TrimLeft(line, "●* \t"))
		if len(f) < 4 || !isUnit(f[0]) {
			continue
		}
		units, about = append(units, f[0]), append(about, strings.Join(f[4:], " "))
	}
	return units, about
}

// isUnit says whether a name is one that systemd allows, and no flag of
// journalctl.
func isUnit(name string) bool {
	strange := strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(`:-_.\@`, r))
	})
	return name != "" && len(name) < 256 && name[0] != '-' && !strange
}

// log gives the last lines of a container's log.
func (q question) log(ctx context.Context, previous bool, what string) []string {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTime, fmt.Errorf("no answer within %s", commandTime))
	defer cancel()
	said, err := q.readLog(ctx, previous)
	if err != nil {
		return []string{"the log of container " + q.container + " could not be read: " + refusal(err, "get on pods/log")}
	}
	lines := tail(text.Plain(said))
	if len(lines) == 0 {
		return nil
	}
	return append([]string{"last lines of " + what + ":"}, lines...)
}

func (q question) readLog(ctx context.Context, previous bool) (string, error) {
	body, err := q.client.Logs(ctx, q.namespace, q.pod, client.LogOptions{Container: q.container, Previous: previous, Tail: lastLines})
	if err != nil {
		return "", err
	}
	defer body.Close()
	// The lines that matter are the last ones, and a line can be any size.
	var kept []byte
	for buf := make([]byte, 32<<10); ; {
		n, err := body.Read(buf)
		kept = append(kept, buf[:n]...)
		kept = kept[max(0, len(kept)-insideBytes):]
		if errors.Is(err, io.EOF) {
			return string(kept), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// refusal says why a question got no answer; needed are the rights for it.
func refusal(err error, needed string) string {
	if needed != "" && apierrors.IsForbidden(err) {
		return "the kubeconfig's user may not (it needs " + needed + ")"
	}
	first, _, _ := strings.Cut(text.Plain(err.Error()), "\n")
	return clip(first)
}

// tail gives the last lines of a text, indented.
func tail(s string) []string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			lines = append(lines, "  "+clip(line))
		}
	}
	return lines[max(0, len(lines)-lastLines):]
}

func clip(line string) string {
	if r := []rune(line); len(r) > maxColumns {
		return string(r[:maxColumns]) + "..."
	}
	return line
}
