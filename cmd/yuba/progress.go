package main

import (
	"strings"
	"sync"

	engine "github.com/opentofu/opentofu/yuba"
	"golang.org/x/term"

	"fediversity.eu/yuba/cmd/yuba/live"
	"fediversity.eu/yuba/method/k8s"
)

// display shows progress on the standard error as these flags, the terminal
// and the environment want it: a CI job that has a terminal has nobody at it.
func (p process) display(view viewFlags) *live.Display {
	mode := live.Plain
	switch t := p.getenv("TERM"); {
	case view.json, view.concise:
		mode = live.Off // OpenTofu's stream tells of progress; or nobody is to
	case term.IsTerminal(int(p.stderr.Fd())) && t != "" && t != "dumb" && !p.inCI():
		mode = live.Terminal
	}
	return live.New(p.stderr, live.Options{
		Mode: mode, Colour: p.colour(p.stderr, view.noColor),
		Size: func() (int, int) { return terminalSize(p.stderr) },
	})
}

// inCI says whether the environment is that of a CI job, as all the well-known
// ones say it.
func (p process) inCI() bool {
	switch p.getenv("CI") {
	case "", "0", "false":
		return false
	}
	return true
}

// lineNames tells which line of the display shows what: there is one for each
// node. Objects that belong to no node have one of their own.
type lineNames struct {
	mu    sync.Mutex
	nodes map[string]bool // those of which was an event
}

// ofObject is the line of an object in the cluster: a node's Deployment has its
// name, and its claim a name that begins with it.
func (l *lineNames) ofObject(namespace, name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	node := strings.TrimSuffix(name, k8s.ClaimSuffix)
	switch {
	case l.nodes[name]:
		return name
	case l.nodes[node]:
		return node
	case namespace == "":
		return namespaceObject
	}
	return namespace + "/" + name
}

// namespaceObject is the address of the namespace in a group's graph.
const namespaceObject = "kubernetes_object.namespace"

// ofImage is the line of an image that is pushed, REPOSITORY/NODE:TAG.
func (l *lineNames) ofImage(ref string) string {
	node, _, _ := strings.Cut(ref[strings.LastIndex(ref, "/")+1:], ":")
	return node
}

// words are the forms of an action. An end that is "" leaves no line.
type words struct{ doing, done, failed, rest string }

// ofPart are the words for what is done to a node's parts.
var ofPart = map[k8s.Part]struct{ made, removed words }{
	k8s.PartImage: {
		made:    words{"pushing", "its image is in the registry", "its image was not pushed", "pushed"},
		removed: words{"letting go of its old image", "", "its old image is still in the state", ""},
	},
	k8s.PartMachineID: {
		made:    words{"drawing its machine ID", "", "it has no machine ID", ""},
		removed: words{"forgetting its machine ID", "", "its machine ID is still in the state", ""},
	},
	k8s.PartClaim: {
		made:    words{"claiming its volume", "", "its claim was not applied", ""},
		removed: words{"removing its claim", "its claim is removed", "its claim is not removed", ""},
	},
	k8s.PartAccount: {
		made:    words{"making its service account", "", "its service account was not applied", ""},
		removed: words{"removing its service account", "", "its service account is not removed", ""},
	},
	k8s.PartDeployment: {
		made:    words{"applying its Deployment", "", "its Deployment was not applied", ""},
		removed: words{"removing its Deployment", "its Deployment is removed", "its Deployment is not removed", ""},
	},
	k8s.PartRollout: {
		made:    words{"rolling out", "ready", "not ready", ""},
		removed: words{"forgetting its rollout", "", "its rollout is still in the state", ""},
	},
}

// ofAction are the words for what is done to an object of no node, as OpenTofu
// has them.
var ofAction = map[string]words{
	"create": {"creating", "creation complete", "creation failed", ""},
	"update": {"modifying", "modifications complete", "modification failed", ""},
	"delete": {"destroying", "destruction complete", "destruction failed", ""},
}

// event translates the engine's event for the display. What only reads has one
// line for all.
func (l *lineNames) event(e engine.Event) live.Event {
	node, part := k8s.PartOf(e.Addr)
	out := live.Event{Line: node, Object: e.Addr}
	w, changes := ofAction[e.Action]
	switch {
	case !changes:
		out.Line = "cluster and registry"
		w = words{doing: "reading", failed: e.Addr + ": " + e.Action + " failed"}
	case part == k8s.PartShared:
		out.Line = e.Addr
	case e.Action == "delete":
		w = ofPart[part].removed
	default:
		w = ofPart[part].made
	}
	if changes && node != "" {
		l.mu.Lock()
		if l.nodes == nil {
			l.nodes = map[string]bool{}
		}
		l.nodes[node] = true
		l.mu.Unlock()
	}
	out.Doing = w.doing
	switch e.Phase {
	case engine.Started:
		out.Phase = live.Started
	case engine.Done:
		out.Phase, out.End, out.Rest = live.Done, w.done, w.rest
	case engine.Failed:
		out.Phase, out.End = live.Failed, w.failed
		if e.Err != nil {
			out.Reason = e.Err.Error()
		}
	}
	return out
}
