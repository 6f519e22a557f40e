package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// The fake nodes' kubelet API: what the API server asks for logs and for
// commands in containers. No process is started: the answers are those of a
// node with systemd in the state that the pod's image tells.
const (
	// yuba.test/failed-units: names of systemd units, with commas between them.
	keyFailedUnits = "yuba.test/failed-units"
	// yuba.test/jobs: units that systemd is still starting, with commas between them.
	keyJobs = "yuba.test/jobs"
	// yuba.test/log: what the container has written to its log.
	keyLog = "yuba.test/log"
	// yuba.test/exec: hang (no command ends) or missing (there are no commands).
	keyExec = "yuba.test/exec"
)

// listen serves the API of all fake nodes' kubelets at one address.
func (k *kubelets) listen(ctx context.Context, address, cert, key string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.serveExec)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	s := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() })
	if err := s.ListenAndServeTLS(cert, key); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// asked finds the pod of a request that has a running container.
func (k *kubelets) asked(r *http.Request) *core.Pod {
	o, exists, err := k.pods.GetByKey(r.PathValue("namespace") + "/" + r.PathValue("pod"))
	if err != nil || !exists {
		return nil
	}
	return o.(*core.Pod)
}

func statusOf(pod *core.Pod, container string) *core.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s core.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

func (k *kubelets) serveExec(w http.ResponseWriter, r *http.Request) {
	// As the routes of a real kubelet do: they produce anything but JSON alone.
	if accept := r.Header.Get("Accept"); accept != "" && !strings.Contains(accept, "*/*") {
		http.Error(w, "406: Not Acceptable", http.StatusNotAcceptable)
		return
	}
	pod := k.asked(r)
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	container := r.PathValue("container")
	if s := statusOf(pod, container); s == nil || s.State.Running == nil {
		http.Error(w, fmt.Sprintf("container not found (%q)", container), http.StatusNotFound)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, commandsOf{pod}, pod.Name, string(pod.UID), container, r.URL.Query()["command"], options,
		time.Minute, 10*time.Second, remotecommand.SupportedStreamingProtocols)
}

// commandsOf are the commands that a container of the pod has.
type commandsOf struct{ pod *core.Pod }

// ExecInContainer is what ServeExec calls.
func (c commandsOf) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, _ io.Reader, stdout, stderr io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	switch c.pod.Annotations[keyExec] {
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	case "missing":
		cmd = nil
	}
	out, code := c.answer(cmd)
	if code == noCommand {
		fmt.Fprintf(stderr, "OCI runtime exec failed: exec failed: unable to start container process: exec: %q: executable file not found in $PATH", strings.Join(cmd, " "))
	} else if _, err := io.WriteString(stdout, out); err != nil {
		return err
	}
	if code == 0 {
		return nil
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
}

const noCommand = 127

// answer is what a command prints, and its exit code.
func (c commandsOf) answer(cmd []string) (string, int) {
	units := split(c.pod.Annotations[keyFailedUnits])
	jobs := split(c.pod.Annotations[keyJobs])
	has := func(arg string) bool { return slices.Contains(cmd, arg) }
	var b strings.Builder
	switch {
	case len(cmd) == 0:
		return "", noCommand
	case cmd[0] == "systemctl" && has("is-system-running"):
		switch {
		case len(jobs) > 0:
			return "starting\n", 1
		case len(units) > 0:
			return "degraded\n", 1
		}
		return "running\n", 0
	case cmd[0] == "systemctl" && has("list-units"):
		for _, u := range units {
			fmt.Fprintf(&b, "%s loaded failed failed The unit %s\n", u, u)
		}
		return b.String(), 0
	case cmd[0] == "systemctl" && has("list-jobs"):
		for i, u := range jobs {
			fmt.Fprintf(&b, "%d %s start running\n", i+1, u)
		}
		return b.String(), 0
	case cmd[0] == "journalctl":
		unit := after(cmd, "-u")
		n, err := strconv.Atoi(after(cmd, "-n"))
		if unit == "" || err != nil {
			return "", 1
		}
		var lines []string
		for i := range 30 {
			lines = append(lines, fmt.Sprintf("%s: line %d", unit, i+1))
		}
		lines = append(lines, fmt.Sprintf("\x1b[0;1;31m%s: Failed with result 'exit-code'.\x1b[0m", unit))
		return strings.Join(lines[max(0, len(lines)-n):], "\n") + "\n", 0
	}
	return "", noCommand
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// after is the argument after a flag.
func after(cmd []string, flag string) string {
	if i := slices.Index(cmd, flag); i >= 0 && i+1 < len(cmd) {
		return cmd[i+1]
	}
	return ""
}

func (k *kubelets) serveLogs(w http.ResponseWriter, r *http.Request) {
	pod := k.asked(r)
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	q, name := r.URL.Query(), r.PathValue("container")
	status := statusOf(pod, name)
	previous := q.Get("previous") == "true"
	switch {
	case previous && (status == nil || status.LastTerminationState.Terminated == nil):
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod.Name), http.StatusBadRequest)
		return
	case status == nil || status.State.Waiting != nil && status.LastTerminationState.Terminated == nil:
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start", name, pod.Name), http.StatusBadRequest)
		return
	}
	text := pod.Annotations[keyLog]
	if text == "" {
		text = "Welcome to the node.\r\n[\x1b[0;32m  OK  \x1b[0m] Reached target Multi-User System."
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if n, err := strconv.Atoi(q.Get("tailLines")); err == nil {
		lines = lines[max(0, len(lines)-n):]
	}
	text = strings.Join(lines, "\n") + "\n"
	if n, err := strconv.Atoi(q.Get("limitBytes")); err == nil && n < len(text) {
		text = text[:n]
	}
	w.Header().Set("Content-Type", "text/plain")
	if _, err := io.WriteString(w, text); err != nil || q.Get("follow") != "true" {
		return
	}
	// The log goes on until its container ends.
	_ = http.NewResponseController(w).Flush()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		now := k.asked(r)
		if now == nil || now.UID != pod.UID {
			return
		}
		if s := statusOf(now, name); s == nil || s.State.Running == nil {
			return
		}
	}
}
