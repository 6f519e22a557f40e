package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/configs/configload"
	"github.com/spf13/afero"
)

// maxConfigFile bounds a file of a configuration and one with the values of
// variables, in bytes.
const maxConfigFile = 16 << 20

// maxModules bounds how many modules a configuration calls.
const maxModules = 10_000

// configFS is the disk as the configuration's files are read: only read, and no
// file larger than maxConfigFile.
func configFS() afero.Fs { return boundedFS{afero.NewReadOnlyFs(afero.NewOsFs())} }

type boundedFS struct{ afero.Fs }

func (fs boundedFS) Open(name string) (afero.File, error) {
	f, err := fs.Fs.Open(name)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	switch {
	case err != nil:
	case fi.IsDir():
		return f, nil
	case !fi.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", name)
	case fi.Size() > maxConfigFile:
		err = fmt.Errorf("%s is larger than %d bytes", name, maxConfigFile)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

func (fs boundedFS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if flag != os.O_RDONLY {
		return nil, os.ErrPermission
	}
	return fs.Open(name)
}

// readModules reads the root module in the working directory and the modules
// that it calls, from where these lie: nothing has been installed. With errors
// the snapshot has the modules that could be read.
func readModules(ctx context.Context, parser *configs.Parser, call configs.StaticModuleCall) (*configload.Snapshot, *configs.Config, hcl.Diagnostics) {
	snap := &configload.Snapshot{Modules: map[string]*configload.SnapshotModule{"": {Dir: configDir, Files: map[string][]byte{}}}}
	root, diags := parser.LoadConfigDir(configDir, call)
	if root == nil {
		return snap, nil, diags
	}
	diags = append(diags, addModule(snap, parser, "", configDir, "")...)
	walk := func(_ context.Context, req *configs.ModuleRequest) (*configs.Module, *version.Version, hcl.Diagnostics) {
		return localModule(snap, parser, req)
	}
	cfg, more := configs.BuildConfig(ctx, root, configs.ModuleWalkerFunc(walk))
	return snap, cfg, append(diags, more...)
}

// localModule reads a module that another one calls.
func localModule(snap *configload.Snapshot, parser *configs.Parser, req *configs.ModuleRequest) (*configs.Module, *version.Version, hcl.Diagnostics) {
	fail := func(summary, format string, args ...any) (*configs.Module, *version.Version, hcl.Diagnostics) {
		return nil, nil, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: req.CallRange.Ptr(),
		}}
	}
	if req.SourceAddr == nil { // which has been reported
		return nil, nil, nil
	}
	if _, ok := req.SourceAddr.(addrs.ModuleSourceLocal); !ok {
		return fail("Module source is not local",
			"The source of module %q is %s. Modules are read from the disk only, none is downloaded: copy the module next to the configuration and name it by a path that starts with ./ or ../.",
			req.Name, req.SourceAddr)
	}
	if len(req.VersionConstraint.Required) != 0 {
		return fail("Invalid version constraint",
			"Cannot apply a version constraint to module %q (at %s:%d) because it has a relative local path.",
			req.Name, req.CallRange.Filename, req.CallRange.Start.Line)
	}
	if len(snap.Modules) >= maxModules {
		return fail("Too many modules", "The configuration calls more than %d modules.", maxModules)
	}
	dir := filepath.Join(req.Parent.Module.SourceDir, req.SourceAddr.String())
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	mod, diags := parser.LoadConfigDir(dir, req.Call)
	if mod == nil {
		return fail("Unreadable module directory", "The directory %s could not be read for module %q at %s:%d.",
			dir, req.Name, req.CallRange.Filename, req.CallRange.Start.Line)
	}
	return mod, nil, append(diags, addModule(snap, parser, moduleKey(req.Path), dir, req.SourceAddr.String())...)
}

// moduleKey is the name that OpenTofu gives a module in a snapshot.
func moduleKey(path addrs.Module) string { return strings.Join(path, ".") }

// addModule puts a module that the parser has read into the snapshot.
func addModule(snap *configload.Snapshot, parser *configs.Parser, key, dir, source string) hcl.Diagnostics {
	primary, override, diags := parser.ConfigDirFiles(dir)
	m := &configload.SnapshotModule{Dir: dir, SourceAddr: source, Files: map[string][]byte{}}
	sources := parser.Sources()
	for _, path := range append(primary, override...) {
		if f, ok := sources[path]; ok {
			m.Files[filepath.Base(path)] = f.Bytes
		}
	}
	snap.Modules[key] = m
	return diags
}

// HasConfig says whether a directory has a configuration.
func HasConfig(dir string) bool { return configs.NewParser(configFS()).IsConfigDir(dir) }
