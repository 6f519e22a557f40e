// Command demo shows yuba's main job on embedded defaults, all on loopback: it
// starts a control plane, a registry and yuba's state server, runs yuba on the
// example group, tells what it does, and stops what it started.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fediversity.eu/yuba/test/image"
)

func main() {
	yuba := flag.String("yuba", "bin/yuba", "the program")
	kubelab := flag.String("kubelab", "", "the test cluster's program")
	group := flag.String("group", "examples/group.json", "the group file")
	flag.Parse()
	// An interrupt reaches the command that runs as well; the demo then ends
	// with its error and stops the rest.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	if err := run(*yuba, *kubelab, *group); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is the scene: a folder with the group file, and the environment of the
// commands.
type demo struct {
	dir, yuba, kubelab string
	env                []string
	running            []func()
}

func run(yuba, kubelab, group string) (err error) {
	dir, err := os.MkdirTemp("", "yuba-demo-")
	if err != nil {
		return err
	}
	d := &demo{dir: dir}
	defer func() { err = errors.Join(err, d.stop()) }()
	if d.yuba, err = filepath.Abs(yuba); err != nil {
		return err
	}
	if d.kubelab, err = filepath.Abs(kubelab); err != nil {
		return err
	}
	if err := d.start(); err != nil {
		return err
	}
	return d.play(group)
}

// play is the story.
func (d *demo) play(group string) error {
	web := func(tag, behaviour, timeout string) error {
		return d.group(group, map[string]string{"web": tag}, map[string]string{"web": behaviour}, timeout)
	}
	const deploy = "k8s apply -auto-approve"
	for _, step := range []struct {
		say  string
		make func() error
		yuba string
		code int
		look bool
	}{
		{"A group of three nodes. What would a deploy do?",
			func() error { return web("1", "ready", "2m") }, "k8s plan", 0, false},
		{"Deploy: push the images, then the namespace, the policy, claims and Deployments; wait for each node.",
			nil, deploy, 0, true},
		{"Now there is nothing to do: exit code 0.",
			nil, "k8s plan -detailed-exitcode", 0, false},
		{"The node web changes. Only its image, Deployment and rollout do.",
			func() error { return web("2", "ready", "2m") }, deploy, 0, true},
		{"A configuration of web that never becomes ready: it is set back, exit code 1.",
			func() error { return web("3", "never-ready", "20s") }, deploy, 1, true},
		{"A plan shows what is still to do: exit code 2.",
			nil, "k8s plan -detailed-exitcode", 2, false},
		{"A good one again.",
			func() error { return web("4", "ready", "2m") }, deploy, 0, true},
		{"What the deploy publishes.",
			nil, "k8s output", 0, false},
		{"Remove it all; the images stay in the registry.",
			nil, "k8s destroy -auto-approve", 0, true},
	} {
		fmt.Printf("\n== %s\n", step.say)
		if step.make != nil {
			if err := step.make(); err != nil {
				return err
			}
		}
		if err := d.run(step.code, strings.Fields(step.yuba)...); err != nil {
			return err
		}
		if step.look {
			if err := d.look(); err != nil {
				return err
			}
		}
	}
	fmt.Println("\n== That was all. Nothing is left of it.")
	return nil
}

// run runs yuba and wants this exit code.
func (d *demo) run(code int, args ...string) error {
	fmt.Printf("$ yuba %s\n", strings.Join(args, " "))
	cmd := exec.Command(d.yuba, args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		return fmt.Errorf("yuba %s: exit code %d, want %d", strings.Join(args, " "), got, code)
	}
	return nil
}

// look prints what the cluster holds.
func (d *demo) look() error {
	fmt.Println("-- the cluster has:")
	cmd := exec.Command(d.kubelab, "kubectl", "--kubeconfig", filepath.Join(d.dir, "lab", "kubeconfig"), "get", "-n", "demo",
		"deployments,pods,persistentvolumeclaims,networkpolicies", "-o",
		"custom-columns=KIND:.kind,NAME:.metadata.name,READY:.status.readyReplicas,PHASE:.status.phase,IMAGE:.spec.template.spec.containers[0].image")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// group writes the group file with some nodes' tags and images changed.
func (d *demo) group(name string, tags, behaviours map[string]string, timeout string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var group map[string]any
	if err := json.Unmarshal(data, &group); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	group["rolloutTimeout"] = timeout
	for _, n := range group["nodes"].([]any) {
		n := n.(map[string]any)
		node := n["name"].(string)
		if tag := tags[node]; tag != "" {
			n["tag"] = tag
		}
		spec := image.Spec{
			Name:   node,
			Labels: map[string]string{"yuba.test/behaviour": behaviours[node]},
			Files:  map[string][]byte{"etc/node": []byte(fmt.Sprintf("%s %s\n", node, n["tag"]))},
			Zeros:  8 << 20,
		}
		archive := filepath.Join(d.dir, n["image"].(map[string]any)["archive"].(string))
		if err := writeImage(archive, spec); err != nil {
			return err
		}
	}
	data, err = json.MarshalIndent(group, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, "group.json"), data, 0o644)
}

func writeImage(name string, spec image.Spec) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(image.Write(f, spec), f.Close())
}

// start starts the control plane with its registry, and the state server.
func (d *demo) start() error {
	fmt.Println("== Starting a control plane, a registry and a state server on loopback")
	log, err := os.Create(filepath.Join(d.dir, "lab.log"))
	if err != nil {
		return err
	}
	lab := filepath.Join(d.dir, "lab")
	cmd := exec.Command(d.kubelab, "up", "-dir", lab, "-stdin")
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := d.background(cmd)
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(lab, "kubeconfig")); err == nil {
			break
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the control plane did not start: %v\n%s", err, text)
		case <-time.After(100 * time.Millisecond):
		}
	}
	var info struct{ Kubeconfig, Registry string }
	data, err := os.ReadFile(filepath.Join(lab, "lab.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return err
	}

	serve := exec.Command(d.yuba, "state", "serve", "-dir", filepath.Join(d.dir, "states"), "-listen", "127.0.0.1:0")
	serve.Stderr = log
	out, err := serve.StdoutPipe()
	if err != nil {
		return err
	}
	if _, err := d.background(serve); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the state server did not start: %w", err)
	}
	address := strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	d.env = []string{
		"KUBE_CONFIG_PATH=" + info.Kubeconfig, "K8S_REGISTRY=" + info.Registry, "K8S_NAMESPACE=demo",
		"TF_HTTP_ADDRESS=" + address + "/demo", "HOME=" + d.dir, "TERM=" + os.Getenv("TERM"),
	}
	for _, v := range d.env[:4] {
		fmt.Println("   export " + v)
	}
	return nil
}

// background starts a command that stop ends. The channel has its end.
func (d *demo) background(cmd *exec.Cmd) (<-chan error, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	d.running = append(d.running, func() {
		stdin.Close()
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	return ended, nil
}

// stop ends what was started, the last first, and removes the scene.
func (d *demo) stop() error {
	for i := len(d.running) - 1; i >= 0; i-- {
		d.running[i]()
	}
	return os.RemoveAll(d.dir)
}
