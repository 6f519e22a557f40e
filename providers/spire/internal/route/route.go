package route

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"fediversity.eu/yuba/providers/spire/internal/ssh"
	"fediversity.eu/yuba/spire/reach"
)

// EnvUser is the environment variable that names the user on the machines.
const EnvUser = "SSH_USER"

// What a way has about which nothing is said.
const (
	connectTimeout = 30 * time.Second
	aliveInterval  = 15 * time.Second
	aliveCount     = 3
)

// Hops is the way to a node, jump hosts first. getenv gives SSH_NODES and SSH_USER. What they say comes before what the
// node says, and an explicit port or user before the option of that name.
func Hops(n reach.Node, getenv func(string) string) ([]ssh.Hop, error) {
	nodes, err := parseNodes(getenv(EnvNodes))
	if err != nil {
		return nil, err
	}
	r := resolver{nodes: nodes, user: getenv(EnvUser)}
	if r.user != "" {
		if err := reach.CheckUser(r.user); err != nil {
			return nil, fmt.Errorf("%s: %w", EnvUser, err)
		}
	}
	return r.hops(n)
}

type resolver struct {
	nodes map[string]json.RawMessage
	user  string // SSH_USER
}

// side is what one of the layers says of a machine.
type side struct {
	port    int
	user    string
	options map[string]string // by the names that reach has
}

// sideOf checks a layer. from is where it comes from.
func sideOf(from string, port int, user string, opts map[string]string) (side, error) {
	s := side{port: port, user: user, options: map[string]string{}}
	for _, given := range slices.Sorted(maps.Keys(opts)) {
		// Keywords are case-insensitive (ssh_config(5)).
		name := given
		for _, known := range reach.Options() {
			if strings.EqualFold(known, given) {
				name = known
			}
		}
		if _, ok := s.options[name]; ok {
			return side{}, fmt.Errorf("%s: option %s is there twice", from, name)
		}
		if err := reach.CheckOption(name, opts[given]); err != nil {
			return side{}, fmt.Errorf("%s: option %.80s: %w", from, name, err)
		}
		s.options[name] = opts[given]
	}
	if s.port == 0 {
		s.port, _ = strconv.Atoi(s.options["Port"])
	} else if err := reach.CheckPort(s.port); err != nil {
		return side{}, fmt.Errorf("%s: %w", from, err)
	}
	if s.user == "" {
		s.user = s.options["User"]
	} else if err := reach.CheckUser(s.user); err != nil {
		return side{}, fmt.Errorf("%s: %w", from, err)
	}
	return s, nil
}

// over is what the layers say together, this one first.
func (s side) over(below side) side {
	out := side{port: cmp.Or(s.port, below.port), user: cmp.Or(s.user, below.user), options: maps.Clone(below.options)}
	maps.Copy(out.options, s.options)
	return out
}

// entry is what SSH_NODES says of a machine. name is as canonical makes it.
func (r *resolver) entry(name string) (side, lines, error) {
	from := EnvNodes + ", " + name
	var e entry
	found := false
	for given, data := range r.nodes {
		if canonical(given) != name {
			continue
		}
		if found {
			return side{}, nil, fmt.Errorf("%s is there twice", from)
		}
		found = true
		var err error
		if e, err = decode[entry](data); err != nil {
			return side{}, nil, fmt.Errorf("%s: %w", from, err)
		}
	}
	s, err := sideOf(from, e.Port, e.User, e.Options)
	return s, append(slices.Clone(e.HostKey), e.HostKeys...), err
}

func (r *resolver) hops(n reach.Node) ([]ssh.Hop, error) {
	name := canonical(n.Host)
	if err := reach.CheckHost(name); err != nil {
		return nil, err
	}
	below, err := sideOf(name, n.Port, n.User, n.Options)
	if err != nil {
		return nil, err
	}
	above, keys, err := r.entry(name)
	if err != nil {
		return nil, err
	}
	s := above.over(below)
	port := cmp.Or(s.port, 22)
	last := hop(name, port, s)
	if last.User, err = r.who(name, r.user, s.user); err != nil {
		return nil, err
	}
	own, err := keysOf(EnvNodes, keys, name, port, true)
	if err == nil && len(own) == 0 {
		own, err = keysOf("the host keys", n.HostKeys, name, port, true)
	}
	if err == nil {
		err = pin(&last, own, s)
	}
	if err != nil {
		return nil, err
	}
	var out []ssh.Hop
	if via := s.options["ProxyJump"]; via != "" && via != "none" {
		for text := range strings.SplitSeq(via, ",") {
			h, err := r.jump(text, last, slices.Concat(keys, n.HostKeys))
			if err != nil {
				return nil, err
			}
			out = append(out, h)
		}
	}
	return append(out, last), nil
}

// jump is a jump host, [user@]host[:port]. known are lines that may have its host keys, when SSH_NODES has none.
func (r *resolver) jump(text string, last ssh.Hop, known []string) (ssh.Hop, error) {
	who, address, ok := strings.Cut(text, "@")
	if !ok {
		who, address = "", text
	}
	name, portText, _ := strings.Cut(address, ":")
	name = canonical(name)
	given, _ := strconv.Atoi(portText) // reach has checked it
	s, keys, err := r.entry(name)
	if err != nil {
		return ssh.Hop{}, err
	}
	if via := s.options["ProxyJump"]; via != "" && via != "none" {
		return ssh.Hop{}, fmt.Errorf("%s: the jump host %s has a ProxyJump of its own: name all jump hosts, in their order, in that of the spire node", EnvNodes, name)
	}
	port := cmp.Or(given, s.port, 22)
	if err := reach.CheckPort(port); err != nil {
		return ssh.Hop{}, fmt.Errorf("jump host %s: %w", name, err)
	}
	// Without a word about it, patience with it is that with the machine behind it.
	h := hop(name, port, s)
	if s.options["ConnectTimeout"] == "" {
		h.ConnectTimeout = last.ConnectTimeout
	}
	if h.User, err = r.who(name, who, cmp.Or(r.user, s.user, last.User)); err != nil {
		return ssh.Hop{}, err
	}
	own, err := keysOf(EnvNodes, keys, name, port, true)
	if err == nil && len(own) == 0 {
		own, err = keysOf("the host keys", known, name, port, false)
	}
	if err == nil {
		err = pin(&h, own, s)
	}
	return h, err
}

// who is the first of the users that is set, else who runs this, as in ssh(1).
func (r *resolver) who(name string, users ...string) (string, error) {
	if u := cmp.Or(users...); u != "" {
		return u, nil
	}
	me, err := user.Current()
	if err != nil || me.Username == "" {
		return "", fmt.Errorf("%s: no user is given, and who runs this has no name: set %s", name, EnvUser)
	}
	return me.Username, nil
}

// hop has all but user and host keys.
func hop(name string, port int, s side) ssh.Hop {
	list := func(option string) []string {
		if s.options[option] == "" {
			return nil
		}
		return strings.Split(s.options[option], ",")
	}
	seconds := func(option string, without time.Duration) time.Duration {
		n, _ := strconv.Atoi(s.options[option]) // reach has checked it
		return cmp.Or(time.Duration(n)*time.Second, without)
	}
	count, _ := strconv.Atoi(s.options["ServerAliveCountMax"])
	return ssh.Hop{
		Name:         name,
		Address:      net.JoinHostPort(cmp.Or(s.options["HostName"], name), strconv.Itoa(port)),
		KeyExchanges: list("KexAlgorithms"), Ciphers: list("Ciphers"), MACs: list("MACs"),
		ConnectTimeout: seconds("ConnectTimeout", connectTimeout),
		AliveInterval:  seconds("ServerAliveInterval", aliveInterval),
		AliveCount:     cmp.Or(count, aliveCount),
	}
}

// pin gives a hop its host keys, and the algorithms that these and the option allow.
func pin(h *ssh.Hop, keys []xssh.PublicKey, s side) error {
	if len(keys) == 0 {
		return fmt.Errorf("%s has no host key, so that anybody could answer in its place: give hostKeys, or name it with hostKeys in %s", h.Name, EnvNodes)
	}
	h.HostKeys, h.HostKeyAlgorithms = keys, ssh.AlgorithmsOf(keys)
	if given := s.options["HostKeyAlgorithms"]; given != "" {
		of := h.HostKeyAlgorithms
		h.HostKeyAlgorithms = slices.DeleteFunc(strings.Split(given, ","), func(a string) bool { return !slices.Contains(of, a) })
		if len(h.HostKeyAlgorithms) == 0 {
			return fmt.Errorf("%s: the option HostKeyAlgorithms allows %s, and the host keys need one of %s", h.Name, given, strings.Join(of, ", "))
		}
	}
	return nil
}

// keysOf are the keys of a machine among lines of host keys. nameless says that lines without a name are its own. A line
// that names the port, too, comes before those that don't.
func keysOf(from string, lines []string, name string, port int, nameless bool) ([]xssh.PublicKey, error) {
	found := map[string][]xssh.PublicKey{}
	for _, line := range lines {
		k, err := reach.ParseHostKey(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(k.Key))
		if err != nil {
			return nil, errors.New(from + ": a host key can't be read") // reach could
		}
		host := canonical(k.Host)
		if host == "" && nameless {
			host = name
		}
		found[host] = append(found[host], key)
	}
	if exact := found["["+name+"]:"+strconv.Itoa(port)]; len(exact) > 0 {
		return exact, nil
	}
	return found[name], nil
}
