package main

import (
	"flag"
	"fmt"
	"strconv"
	"time"

	engine "github.com/opentofu/opentofu/yuba"
)

// strs collects the values of a flag that may be given several times.
type strs []string

func (s *strs) String() string     { return fmt.Sprint([]string(*s)) }
func (s *strs) Set(v string) error { *s = append(*s, v); return nil }

// viewFlags say how results are shown.
type viewFlags struct {
	json, noColor, compactWarnings, concise, showSensitive bool
}

func (v *viewFlags) register(f *flag.FlagSet) {
	f.BoolVar(&v.json, "json", false, "print OpenTofu's machine-readable stream")
	f.BoolVar(&v.noColor, "no-color", false, "print without colour, as with NO_COLOR in the environment")
	f.BoolVar(&v.compactWarnings, "compact-warnings", false, "show warnings by their summary only")
	f.BoolVar(&v.concise, "concise", false, "leave out the lines about refreshing")
	f.BoolVar(&v.showSensitive, "show-sensitive", false, "show sensitive values")
}

// lockFlags say how the state is locked.
type lockFlags struct {
	lock        bool
	lockTimeout time.Duration
}

func (l *lockFlags) register(f *flag.FlagSet) {
	f.BoolVar(&l.lock, "lock", true, "hold the state's lock while working; -lock=false is dangerous\nwhen others may work on the same state")
	f.DurationVar(&l.lockTimeout, "lock-timeout", 0, "how long to wait for a lock that somebody else holds, a `duration` such as 60s")
}

// planFlags shape a plan.
type planFlags struct {
	destroy, refreshOnly       bool
	refresh                    bool
	targets, excludes, replace strs
	parallelism                int
	input                      bool
}

func (p *planFlags) register(f *flag.FlagSet, destroys bool) {
	if !destroys {
		f.BoolVar(&p.destroy, "destroy", false, "plan the removal of everything that the state has")
		f.BoolVar(&p.refreshOnly, "refresh-only", false, "only bring the state in step with what the cluster holds")
		f.Var(&p.replace, "replace", "replace the object at this `address`; may be given several times")
	}
	f.BoolVar(&p.refresh, "refresh", true, "look at what the cluster and the registry hold before planning")
	f.Var(&p.targets, "target", "work on this `address` and what it needs only; may be given several times")
	f.Var(&p.excludes, "exclude", "leave out this `address` and what needs it; may be given several times")
	f.IntVar(&p.parallelism, "parallelism", 10, "how many objects are worked on at a time, a `number`")
	f.BoolVar(&p.input, "input", true, "ask on the terminal; -input=false never asks")
}

func (p *planFlags) options() (engine.PlanOptions, error) {
	o := engine.PlanOptions{SkipRefresh: !p.refresh, Targets: p.targets, Excludes: p.excludes, Replace: p.replace}
	switch {
	case p.destroy && p.refreshOnly:
		return o, usagef("-destroy and -refresh-only exclude each other")
	case p.refreshOnly && !p.refresh:
		return o, usagef("-refresh-only and -refresh=false exclude each other")
	case len(p.targets) > 0 && len(p.excludes) > 0:
		return o, usagef("-target and -exclude exclude each other")
	case p.parallelism < 1:
		return o, usagef("-parallelism=%s: at least 1 is needed", strconv.Itoa(p.parallelism))
	case p.destroy:
		o.Mode = engine.Destroy
	case p.refreshOnly:
		o.Mode = engine.RefreshOnly
	default:
		o.Mode = engine.Normal
	}
	return o, nil
}
