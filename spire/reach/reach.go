// Package reach says how the spire node is reached over ssh, as the group file
// and SSH_NODES have it, and what of that is right. It connects to nothing: the
// method, which writes the coordinates into a graph, and the provider, which uses
// them, agree by it.
package reach

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// DefaultCommand is what runs yuba on the spire node when nothing else is said.
const DefaultCommand = "yuba"

// Node is how the spire node is reached. The user's private key is not part of
// it: SSH_PRIVATE_KEY_FILE names it, in each run.
type Node struct {
	Host     string            // its name in the DNS
	Port     int               // 0 for 22
	User     string            // "" for who runs yuba, as ssh does
	HostKeys []string          // that ParseHostKey takes; at least one of the node's own
	Options  map[string]string // of ssh_config(5), by the names that Options gives
	Command  string            // what runs yuba there, "" for DefaultCommand
}

// Patterns, compiled at their first use: most runs reach no spire node.
var (
	host    = pattern(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	user    = pattern(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	command = pattern(`^[A-Za-z0-9_./+][A-Za-z0-9_./+=-]*( [A-Za-z0-9_./+=-]+)*$`)
	jump    = pattern(`^([A-Za-z0-9_][A-Za-z0-9._-]{0,63}@)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?$`)
	known   = pattern(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[a-z0-9]([a-z0-9.-]*[a-z0-9])?\]:[1-9][0-9]{0,4})$`)
)

func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// CheckHost is the rule of the spire node's name: what a certificate or an
// agent's configuration can name, too.
func CheckHost(s string) error {
	if len(s) > 253 || !host().MatchString(s) {
		return fmt.Errorf(`%.80q is not the name of a host in the DNS: a-z, 0-9, "-" and ".", with a letter or digit at both ends of each part`, s)
	}
	return nil
}

// CheckPort is the rule of ports.
func CheckPort(n int) error {
	if n < 1 || n > 65535 {
		return fmt.Errorf("%d is not a port: 1 to 65535", n)
	}
	return nil
}

// CheckUser is the rule of users' names.
func CheckUser(s string) error {
	if !user().MatchString(s) {
		return fmt.Errorf(`%.80q is not the name of a user: 1 to 64 of A-Z, a-z, 0-9, "_", "." and "-", not starting with "." or "-"`, s)
	}
	return nil
}

// CheckCommand is the rule of what runs yuba on the spire node. The login shell
// there reads it, so that it must mean the same to every shell.
func CheckCommand(s string) error {
	if len(s) > 255 || !command().MatchString(s) {
		return fmt.Errorf(`%.80q is not a command that every shell reads the same: words of A-Z, a-z, 0-9, "_", ".", "/", "+", "=" and "-", with one space between`, s)
	}
	return nil
}

// HostKey is one of the keys that a host may have.
type HostKey struct {
	Host string // as known_hosts(5) names it, a jump host; "" for the spire node itself
	Key  string // type and base64, without comment
}

// String is the one form that this house compares.
func (k HostKey) String() string { return strings.TrimSpace(k.Host + " " + k.Key) }

// ParseHostKey reads a line of sshd's .pub files, "ssh-ed25519 AAAA...", or, for
// a host on the way to the spire node, one that begins with that host's name, as
// lines of known_hosts(5) do. One line end is part of it, as in the file.
func ParseHostKey(s string) (HostKey, error) {
	s = strings.TrimSuffix(s, "\n")
	key, _, words, rest, err := ssh.ParseAuthorizedKey([]byte(s))
	if err == nil && len(words) == 1 && known().MatchString(words[0]) && strings.HasPrefix(s, words[0]+" ") {
		words = nil
	}
	if err != nil || len(words) > 0 || len(rest) > 0 || strings.ContainsAny(s, "\r\n") || len(s) > 16<<10 {
		return HostKey{}, fmt.Errorf(`%.80q is not a host key: a line of a file such as /etc/ssh/ssh_host_ed25519_key.pub, "ssh-ed25519 AAAA...", or for a jump host one that begins with its name`, s)
	}
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA:
	default:
		if strings.Contains(key.Type(), "cert-v01") {
			return HostKey{}, fmt.Errorf("%.80q is a certificate: write the host's own key", s)
		}
		return HostKey{}, fmt.Errorf("%.80q is of a type that is not supported: write the host's key of type ed25519, ecdsa or rsa", s)
	}
	k := HostKey{Key: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))}
	if first, _, _ := strings.Cut(s, " "); first != key.Type() {
		k.Host = first
	}
	return k, nil
}

// options are the ones that yuba knows, with the rules of their values. Another
// one is refused: whoever set it counts on it.
var options = map[string]func(string) error{
	"HostName":              CheckHost,
	"Port":                  isPort,
	"User":                  CheckUser,
	"ProxyJump":             isJump,
	"ConnectTimeout":        isSeconds,
	"ServerAliveInterval":   isSeconds,
	"ServerAliveCountMax":   isCount,
	"HostKeyAlgorithms":     isAlgorithms(func(a ssh.Algorithms) []string { return a.HostKeys }),
	"KexAlgorithms":         isAlgorithms(func(a ssh.Algorithms) []string { return a.KeyExchanges }),
	"Ciphers":               isAlgorithms(func(a ssh.Algorithms) []string { return a.Ciphers }),
	"MACs":                  isAlgorithms(func(a ssh.Algorithms) []string { return a.MACs }),
	"StrictHostKeyChecking": isWord("yes"),
	"BatchMode":             isWord("yes"),
	"IdentitiesOnly":        isWord("yes"),
}

// Options are the names of the ssh options that yuba knows, sorted.
func Options() []string { return slices.Sorted(maps.Keys(options)) }

// CheckOption is the rule of an ssh option.
func CheckOption(name, value string) error {
	rule, ok := options[name]
	if !ok {
		return fmt.Errorf("%.80q is not an ssh option that yuba knows; they are %s", name, strings.Join(Options(), ", "))
	}
	return rule(value)
}

func isPort(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || s != strconv.Itoa(n) {
		return fmt.Errorf("%.80q is not a port: 1 to 65535", s)
	}
	return CheckPort(n)
}

// isAlgorithms is the rule of lists of algorithms, all of which x/crypto must have and hold to be safe.
func isAlgorithms(of func(ssh.Algorithms) []string) func(string) error {
	return func(s string) error {
		supported := slices.DeleteFunc(of(ssh.SupportedAlgorithms()), func(a string) bool { return strings.Contains(a, "-cert-") })
		for a := range strings.SplitSeq(s, ",") {
			if !slices.Contains(supported, a) {
				return fmt.Errorf(`%.80q is not a list of algorithms with "," between, out of %s`, s, strings.Join(supported, ", "))
			}
		}
		return nil
	}
}

func isJump(s string) error {
	for hop := range strings.SplitSeq(s, ",") {
		if len(s) > 1000 || !jump().MatchString(hop) {
			return fmt.Errorf(`%.80q is not hosts to jump by, [USER@]HOST[:PORT] with "," between`, s)
		}
	}
	return nil
}

func isSeconds(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > int(time.Hour/time.Second) || s != strconv.Itoa(n) {
		return fmt.Errorf("%.80q is not a number of seconds from 1 to 3600", s)
	}
	return nil
}

func isCount(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 100 || s != strconv.Itoa(n) {
		return fmt.Errorf("%.80q is not a number from 1 to 100", s)
	}
	return nil
}

func isWord(want string) func(string) error {
	return func(s string) error {
		if s != want {
			return fmt.Errorf("is %.80q, yuba knows %q only", s, want)
		}
		return nil
	}
}

// Check is the first thing that is wrong with the node, nil when nothing is.
func (n Node) Check() error {
	if err := CheckHost(n.Host); err != nil {
		return err
	}
	if n.Port != 0 {
		if err := CheckPort(n.Port); err != nil {
			return err
		}
	}
	if n.User != "" {
		if err := CheckUser(n.User); err != nil {
			return err
		}
	}
	own := false
	for _, line := range n.HostKeys {
		k, err := ParseHostKey(line)
		if err != nil {
			return err
		}
		own = own || k.Host == ""
	}
	if !own {
		return fmt.Errorf("%s has no host key: without one, anybody could be the spire node", n.Host)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Options)) {
		if err := CheckOption(name, n.Options[name]); err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
	}
	if n.Command != "" {
		return CheckCommand(n.Command)
	}
	return nil
}
