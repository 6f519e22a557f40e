// Package rollout judges Deployments from what the API server holds of them.
//
// Its functions are pure: objects in, verdict out. They know no clock, no
// network and no order of calls; only Patience, which is told the time, knows
// how long something has been so. There is one file per kind, and each rule
// says which controller's words it reads.
package rollout

import (
	"strings"
	"time"
)

// Object is a Kubernetes object as decoded JSON.
type Object = map[string]any

// State is what a verdict comes to.
type State int

const (
	// Waiting: not done, and it can still become so.
	Waiting State = iota
	// Done: the Deployment runs what its spec says and nothing else.
	Done
	// Failed: it cannot become so.
	Failed
)

func (s State) String() string {
	return [...]string{"waiting", "done", "failed"}[s]
}

// Verdict is the judgement of one moment.
type Verdict struct {
	State State
	// Message is one line for the user, such as "0/1 ready: ContainerCreating".
	Message string
	// Detail is the longer why, in lines; it may be empty.
	Detail []string
	// Stuck names a reason that does not heal by itself, while it lasts. Two
	// moments with the same Stuck have the same reason. See Patience.
	Stuck string
	// Held is true while Stuck does not show, but has not healed either: between
	// two crashes the container runs. The clock goes on, but nothing fails.
	Held bool
	// Absent is true when the Deployment is not there, or is another one. Who
	// reads from a copy of the cluster should look again before believing it.
	Absent bool
	// Generation of the Deployment that was judged.
	Generation int64
	// Pod is the name of the pod that the message is about, "" when it is about
	// none.
	Pod string
}

// Why is the message with its details, for errors.
func (v Verdict) Why() string {
	return strings.Join(append([]string{v.Message}, v.Detail...), "\n")
}

// Snapshot is what the verdict is made from. ReplicaSets, Pods and Events may
// hold more than those of the Deployment.
type Snapshot struct {
	Deployment  Object // nil when there is none
	ReplicaSets []Object
	Pods        []Object
	Events      []Object // warnings
	// Related are further objects of which something is known; nil means that
	// there is none of that name. See Needs.
	Related map[Ref]Object
}

// Patience turns a reason that does not heal by itself into a failure once it
// has lasted. The zero value is ready; Grace is how long it must last.
type Patience struct {
	Grace time.Duration

	stuck string
	held  bool
	since time.Time
}

// Judge gives the verdict v of the moment now, failed when its reason has
// lasted for the grace time.
func (p *Patience) Judge(v Verdict, now time.Time) Verdict {
	if v.State != Waiting || v.Stuck == "" {
		p.stuck = ""
		return v
	}
	p.held = v.Held
	if v.Stuck != p.stuck {
		p.stuck, p.since = v.Stuck, now
	}
	if now.Sub(p.since) >= p.Grace && !v.Held {
		v.State = Failed
	}
	return v
}

// Next is how long until a verdict with the current reason fails, 0 when
// nothing is stuck, or fails as long as it is held.
func (p *Patience) Next(now time.Time) time.Duration {
	if p.stuck == "" || p.held {
		return 0
	}
	return max(p.Grace-now.Sub(p.since), time.Millisecond)
}
