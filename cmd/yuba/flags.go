package main

import (
	"errors"
	"flag"
	"strconv"
	"strings"
	"time"

	engine "github.com/opentofu/opentofu/yuba"

	"fediversity.eu/yuba/method/k8s"
)

// strs collects the values of a flag that may be given several times.
type strs []string

func (s *strs) String() string     { return strings.Join(*s, " ") }
func (s *strs) Set(v string) error { *s = append(*s, v); return nil }

// duration is the value of a flag that is a time to wait.
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(v string) error {
	n, err := time.ParseDuration(v)
	if err != nil || n < 0 {
		return errors.New("want a duration such as 60s or 5m")
	}
	*d = duration(n)
	return nil
}

// number is the value of a flag that counts something: 1 at least.
type number int

func (n *number) String() string { return strconv.Itoa(int(*n)) }

func (n *number) Set(v string) error {
	i, err := strconv.Atoi(v)
	if err != nil || i < 1 {
		return errors.New("want a whole number, 1 or more")
	}
	*n = number(i)
	return nil
}

// viewFlags say how results are shown.
type viewFlags struct {
	json, noColor, compactWarnings, concise, showSensitive bool

	jsonInto string // a file; plan and apply only
}

func (v *viewFlags) register(f *flag.FlagSet) {
	f.BoolVar(&v.json, "json", false, "print OpenTofu's machine-readable form")
	f.BoolVar(&v.noColor, "no-color", false, "print without colour, as with NO_COLOR in the environment")
	f.BoolVar(&v.compactWarnings, "compact-warnings", false, "show warnings by their summary only")
	f.BoolVar(&v.showSensitive, "show-sensitive", false, "show sensitive values")
}

// lockFlags say how the state is locked.
type lockFlags struct {
	lock        bool
	lockTimeout time.Duration
}

func (l *lockFlags) register(f *flag.FlagSet) {
	f.BoolVar(&l.lock, "lock", true, "work without the state's lock: dangerous when others may work on the same state")
	f.Var((*duration)(&l.lockTimeout), "lock-timeout", "how long to wait for a lock that somebody else holds, a `duration` such as 60s (default 0s)")
}

// parallelism is more than stock tofu's 10: an object that waits for its pod
// would keep ten others from beginning.
const parallelism = 64

// planFlags shape a plan.
type planFlags struct {
	destroy, refreshOnly       bool
	refresh                    bool
	targets, excludes, replace strs
	targetFiles, excludeFiles  strs
	parallelism                int
	input                      bool
}

func (p *planFlags) register(f *flag.FlagSet, destroys bool) {
	if !destroys {
		f.BoolVar(&p.destroy, "destroy", false, "plan the removal of everything that the state has")
		f.BoolVar(&p.refreshOnly, "refresh-only", false, "only bring the state in step with what the cluster holds")
		f.Var(&p.replace, "replace", "replace the object at this `address`; may be given several times")
	}
	f.BoolVar(&p.refresh, "refresh", true, "plan on what the state says, without a look at what cluster and registry hold")
	f.Var(&p.targets, "target", "work on this `address` and what it needs only; may be given several times")
	f.Var(&p.targetFiles, "target-file", "read addresses for -target from this `file`, one a line")
	f.Var(&p.excludes, "exclude", "leave out this `address` and what needs it; may be given several times")
	f.Var(&p.excludeFiles, "exclude-file", "read addresses for -exclude from this `file`, one a line")
	if p.parallelism == 0 {
		p.parallelism = parallelism
	}
	f.Var((*number)(&p.parallelism), "parallelism", "work on this `number` of objects at a time")
	f.BoolVar(&p.input, "input", true, "never ask: fail where a question would have been asked; as with TF_INPUT=false")
}

func (p *planFlags) options() (engine.PlanOptions, error) {
	o := engine.PlanOptions{SkipRefresh: !p.refresh, Targets: p.targets, Excludes: p.excludes, Replace: p.replace, Forgets: []string{k8s.Images}}
	o.TargetFiles, o.ExcludeFiles = p.targetFiles, p.excludeFiles
	switch {
	case p.destroy && p.refreshOnly:
		return o, usagef("-destroy and -refresh-only exclude each other")
	case p.refreshOnly && !p.refresh:
		return o, usagef("-refresh-only and -refresh=false exclude each other")
	case len(p.targets)+len(p.targetFiles) > 0 && len(p.excludes)+len(p.excludeFiles) > 0:
		return o, usagef("-target and -exclude exclude each other")
	case p.destroy:
		o.Mode = engine.Destroy
	case p.refreshOnly:
		o.Mode = engine.RefreshOnly
	default:
		o.Mode = engine.Normal
	}
	return o, nil
}
