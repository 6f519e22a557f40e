// Package auth finds the credentials of a registry in files of the form that containers-auth.json(5) describes.
// It never runs a credential helper: where one would be needed, the error names it.
package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// maxFileBytes bounds an auth file; real ones have a few hundred bytes per registry.
const maxFileBytes = 1 << 20

// dockerHub is the name that go-containerregistry has for docker.io.
const dockerHub = "index.docker.io"

// Entry is the credential of one key of an auth file. The zero Entry has none.
type Entry struct {
	Username, Password string
	// IdentityToken is an OAuth2 refresh token, RegistryToken a ready bearer token.
	IdentityToken, RegistryToken string
}

// File is a parsed auth file.
type File struct {
	entries    map[string]Entry // normalised key
	helpers    map[string]string
	credsStore string
}

// Parse reads the content of an auth file. Errors never quote the content.
func Parse(data []byte) (*File, error) {
	var raw struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
			RegistryToken string `json:"registrytoken"`
		} `json:"auths"`
		CredHelpers map[string]string `json:"credHelpers"`
		CredsStore  string            `json:"credsStore"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		// The decoder's own message can quote a value, and a value here can be a password.
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
		}
		if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
			return nil, fmt.Errorf("a value at byte %d has the wrong type: want the form of containers-auth.json(5)", kind.Offset)
		}
		return nil, errors.New("not valid JSON")
	}
	f := &File{entries: map[string]Entry{}, helpers: map[string]string{}, credsStore: raw.CredsStore}
	for key, a := range raw.Auths {
		e := Entry{IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
		if a.Auth != "" {
			user, pass, err := decode(a.Auth)
			if err != nil {
				return nil, fmt.Errorf("auths[%q].auth: %w", key, err)
			}
			e.Username, e.Password = user, pass
		}
		normal := normalise(key)
		if old, ok := f.entries[normal]; ok && old != (Entry{}) && e != (Entry{}) && old != e {
			return nil, fmt.Errorf("auths has two different credentials for %q", normal)
		} else if !ok || e != (Entry{}) {
			f.entries[normal] = e
		}
	}
	for key, helper := range raw.CredHelpers {
		f.helpers[normalise(key)] = helper
	}
	return f, nil
}

// decode takes "user:password" out of strict base64.
func decode(s string) (user, pass string, err error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return "", "", errors.New("not valid base64")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return "", "", errors.New("not valid base64")
	}
	user, pass, ok := strings.Cut(string(b), ":")
	if !ok || user == "" {
		return "", "", errors.New(`not "user:password" in base64`)
	}
	// docker pads passwords with NUL
	return user, strings.TrimRight(pass, "\x00"), nil
}

// normalise makes a key comparable with registry[/path...]: docker writes a URL, of which only the host counts.
func normalise(key string) string {
	stripped := strings.TrimPrefix(strings.TrimPrefix(key, "http://"), "https://")
	if stripped != key {
		stripped, _, _ = strings.Cut(stripped, "/")
	}
	host, rest, isPath := strings.Cut(strings.TrimRight(stripped, "/"), "/")
	switch host {
	case "docker.io", "registry-1.docker.io":
		host = dockerHub
	}
	if isPath {
		return host + "/" + rest
	}
	return host
}

// Lookup finds the credentials for a repository ("host[:port]/path"): of the keys that are the repository or a
// whole-segment prefix of it, the longest wins. ok is false when the file says nothing about it.
// It is an error when only a credential helper could tell.
func (f *File) Lookup(repository string) (e Entry, ok bool, err error) {
	for key := normalise(repository); ; {
		e, found := f.entries[key]
		if found && e != (Entry{}) {
			return e, true, nil
		}
		if helper := f.helpers[key]; helper != "" {
			return Entry{}, false, helperError(key, helper)
		}
		// docker leaves an empty entry where it has put the credentials into the store
		if found && f.credsStore != "" {
			return Entry{}, false, helperError(key, f.credsStore)
		}
		cut := strings.LastIndexByte(key, '/')
		if cut < 0 {
			return Entry{}, false, nil
		}
		key = key[:cut]
	}
}

func helperError(key, helper string) error {
	return fmt.Errorf("the credentials of %q are with the credential helper %q, and yuba runs no program: put them into the \"auths\" of the file", key, "docker-credential-"+helper)
}

// Keychain resolves credentials from a named file only, or from the default places in the order of
// containers-auth.json(5). Files are read at each Resolve, so a rotated token is seen; it is safe for concurrent use.
type Keychain struct {
	named  string
	getenv func(string) string
}

// New makes a Keychain. file is what the user named (a setting or REGISTRY_AUTH_FILE); empty means the default
// places, which getenv finds (os.Getenv).
func New(file string, getenv func(string) string) *Keychain {
	return &Keychain{named: file, getenv: getenv}
}

// String says where credentials come from, for error messages.
func (k *Keychain) String() string {
	if k.named != "" {
		return "the auth file " + k.named
	}
	return "the default auth files (REGISTRY_AUTH_FILE is not set)"
}

// Resolve implements authn.Keychain. A registry that no file knows is anonymous.
func (k *Keychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	e, err := k.find(r.String())
	if err != nil {
		return nil, err
	}
	if e == (Entry{}) {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(authn.AuthConfig{
		Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}), nil
}

func (k *Keychain) find(repository string) (Entry, error) {
	if k.named != "" {
		f, err := read(k.named)
		if err != nil {
			return Entry{}, fmt.Errorf("auth file %s: %w: correct the file, or REGISTRY_AUTH_FILE (or auth_file) that names it", k.named, err)
		}
		e, _, err := f.Lookup(repository)
		if err != nil {
			return Entry{}, fmt.Errorf("auth file %s: %w", k.named, err)
		}
		return e, nil
	}
	for _, path := range k.defaults() {
		f, err := read(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			continue // nobody named it
		}
		if err != nil {
			return Entry{}, fmt.Errorf("auth file %s: %w: correct it, or name another one with REGISTRY_AUTH_FILE", path, err)
		}
		e, ok, err := f.Lookup(repository)
		if err != nil {
			return Entry{}, fmt.Errorf("auth file %s: %w", path, err)
		}
		if ok {
			return e, nil
		}
	}
	return Entry{}, nil
}

// defaults are the places of containers-auth.json(5), in its order.
func (k *Keychain) defaults() []string {
	var paths []string
	home := k.getenv("HOME")
	if dir := k.getenv("XDG_RUNTIME_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, "containers", "auth.json"))
	}
	if dir := k.getenv("XDG_CONFIG_HOME"); dir != "" {
		paths = append(paths, filepath.Join(dir, "containers", "auth.json"))
	} else if home != "" {
		paths = append(paths, filepath.Join(home, ".config", "containers", "auth.json"))
	}
	if home != "" {
		paths = append(paths, filepath.Join(home, ".docker", "config.json"))
	}
	return paths
}

// read parses one file. Its errors are without the path.
func read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, cause(err)
	} else if info.IsDir() {
		return nil, errors.New("is a directory")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, cause(err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("is larger than %d bytes", maxFileBytes)
	}
	return Parse(data)
}

// cause drops the operation and path, which the caller names in its own words.
func cause(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
