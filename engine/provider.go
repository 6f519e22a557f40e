package engine

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/depsfile"
	"github.com/opentofu/opentofu/internal/plugins"
	"github.com/opentofu/opentofu/internal/tfdiags"
	"github.com/opentofu/opentofu/yuba/builtin"
	"github.com/opentofu/opentofu/yuba/direct"
)

// Provider is one that is linked into this process.
type Provider struct {
	// Address is the source address, "registry.opentofu.org/hashicorp/random".
	Address string
	// Version, if set, is what version constraints of a configuration in a
	// directory are held against.
	Version string
	// New makes a server that shares nothing with others that it made: core
	// asks for one in each of its walks, and servers run at the same time.
	New func() tfprotov6.ProviderServer
}

// linked are the providers that there are.
type linked struct {
	addrs     []string // sorted
	versions  map[addrs.Provider]string
	factories plugins.ProviderFactories
	providers plugins.Library // one for all verbs: it keeps the schemas
	locks     *depsfile.Locks // selections of packages, which plan files carry
	pool      *direct.Pool
}

func link(providers []Provider, backends builtin.Backends, provisioners plugins.ProvisionerFactories) (*linked, error) {
	l := &linked{
		factories: plugins.ProviderFactories{addrs.NewBuiltInProvider("terraform"): builtin.Factory(backends)},
		versions:  map[addrs.Provider]string{},
		pool:      &direct.Pool{Log: providerLog()},
	}
	for _, p := range providers {
		a, diags := addrs.ParseProviderSourceString(p.Address)
		if diags.HasErrors() {
			return nil, fmt.Errorf("provider address %q: %w", p.Address, diags.Err())
		}
		if _, twice := l.factories[a]; twice {
			return nil, fmt.Errorf("provider %s is linked twice", a)
		}
		l.factories[a] = l.pool.Factory(a.Type, p.New)
		l.addrs = append(l.addrs, a.String())
		if p.Version != "" {
			l.versions[a] = p.Version
		}
	}
	sort.Strings(l.addrs)
	l.locks = l.over(depsfile.NewLocks())
	l.providers = plugins.NewLibrary(l.factories, provisioners)
	return l, nil
}

// over are the same selections, with the linked providers in use whatever is
// selected: there is no package that a version or a checksum could be of.
func (l *linked) over(locks *depsfile.Locks) *depsfile.Locks {
	locks = locks.DeepCopy()
	for a := range l.factories {
		if depsfile.ProviderIsLockable(a) {
			locks.SetProviderOverridden(a)
		}
	}
	return locks
}

// lockFile is where stock tofu keeps the selections of a configuration.
const lockFile = ".terraform.lock.hcl"

// takeLocks takes over what stock tofu has selected in the working directory, if
// it has. Nothing here depends on that, but a plan file is applied by stock tofu
// only where it was made with the same selections. A file that can't be read,
// or that has other providers than the linked ones, is left alone: whether these
// are used is for the configuration to say.
func (l *linked) takeLocks() {
	data, err := readBounded(lockFile, maxConfigFile)
	if err != nil {
		return
	}
	locks, diags := depsfile.LoadLocksFromBytes(data, lockFile)
	if diags.HasErrors() {
		return
	}
	for a := range locks.AllProviders() {
		if _, ok := l.factories[a]; !ok {
			return
		}
	}
	l.locks = l.over(locks)
}

// check finds providers that the configuration needs and that aren't linked.
func (l *linked) check(cfg *configs.Config) tfdiags.Diagnostics {
	var missing []string
	for _, a := range cfg.ProviderTypes() {
		if _, ok := l.factories[a]; !ok {
			missing = append(missing, a.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	sort.Strings(missing)
	return tfdiags.Diagnostics{}.Append(l.unlinked(missing))
}

const unlinkedSummary = "Provider not linked"

// unlinked is the error for providers that a configuration needs.
func (l *linked) unlinked(missing []string) tfdiags.Diagnostic {
	return sourceless(unlinkedSummary,
		"The configuration needs providers that this program doesn't have:%s\n\n%s\n\nIf one of them is meant, name it as the source in required_providers.",
		bullets(missing), l.says())
}

// says which providers there are.
func (l *linked) says() string {
	return "Providers are linked into the program, none is downloaded. These are linked:" + bullets(l.addrs)
}

func bullets(lines []string) string {
	if len(lines) == 0 {
		return "\n  (none)"
	}
	return "\n  - " + strings.Join(lines, "\n  - ")
}
