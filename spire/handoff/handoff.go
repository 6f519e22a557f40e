// Package handoff is what yuba and the spire node say to each other: the
// documents that go over ssh and lie in the drop directory, and the names that
// follow from a node's. Every reader is strict and bounded, because each side
// takes the other for a stranger. docs/spire.md describes the contract.
package handoff

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

const (
	// Version is the format that this program speaks; each document has it.
	Version = 1
	// Audience is what the token of a node's pod is made for.
	Audience = "spire-server"
	// MaxSize is the size of a document in bytes, of each kind.
	MaxSize = 1 << 20
	// MaxNodes is how many nodes a namespace has.
	MaxNodes = 4096
)

// Server is what `yuba spire show` tells of the spire node.
type Server struct {
	Version     int    `json:"version"`
	MachineID   string `json:"machineID"`   // machine-id(5): 32 of 0-9 and a-f
	TrustDomain string `json:"trustDomain"` // a SPIFFE trust domain, without "spiffe://"
	Bundle      string `json:"bundle"`      // the trust domain's X.509 authorities in PEM
}

// Handoff gives the spire node the nodes of a namespace; `yuba spire receive`
// reads it. It is a secret: Kubeconfig has a token.
type Handoff struct {
	Version int `json:"version"`
	// MachineID is the machine that the hand-off is for, as its Server said it: one that was set up again since has
	// nothing of what the plan has seen, and must refuse. Empty: any.
	MachineID  string   `json:"machineID,omitempty"`
	Namespace  string   `json:"namespace"`
	Kubeconfig string   `json:"kubeconfig"` // as Kubeconfig.Marshal makes it
	Nodes      []string `json:"nodes"`      // all of the namespace, in any order; at least one
}

// Retirement takes back what was handed over for a namespace; `yuba spire
// retire` reads it.
type Retirement struct {
	Version   int    `json:"version"`
	Namespace string `json:"namespace"`
}

// Drop is the drop-file of one node, named as Identity.DropFile says.
type Drop struct {
	Version    int    `json:"version"`
	Namespace  string `json:"namespace"`
	Node       string `json:"node"`
	Audience   string `json:"audience"`
	Kubeconfig string `json:"kubeconfig"` // a file beside the drop-file: KubeconfigFile
}

// Identity is the node whose drop-file this is.
func (d Drop) Identity() Identity { return Identity{d.Namespace, d.Node} }

// NewDrop is the drop-file of a node.
func NewDrop(id Identity) Drop {
	return Drop{Version: Version, Namespace: id.Namespace, Node: id.Node, Audience: Audience, Kubeconfig: KubeconfigFile(id.Namespace)}
}

// Read reads a document and refuses one that is larger than MaxSize.
func Read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxSize:
		return nil, fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	return data, nil
}

// Marshal is the document, with the version of this program, when it is one
// that ParseServer takes.
func (s Server) Marshal() ([]byte, error) {
	s.Version = Version
	return marshal(s, s.check())
}

// Marshal is the document, with the version of this program, when it is one
// that ParseHandoff takes.
func (h Handoff) Marshal() ([]byte, error) {
	h.Version = Version
	return marshal(h, h.check())
}

// Marshal is the document, with the version of this program, when it is one
// that ParseRetirement takes.
func (r Retirement) Marshal() ([]byte, error) {
	r.Version = Version
	return marshal(r, r.check())
}

// Marshal is the document, when it is one that ParseDrop takes.
func (d Drop) Marshal() ([]byte, error) { return marshal(d, d.check()) }

// marshal ends the document with a line end. Invalid is what its check said.
func marshal(document any, invalid error) ([]byte, error) {
	if invalid != nil {
		return nil, invalid
	}
	data, err := json.Marshal(document)
	switch {
	case err != nil:
		return nil, err
	case len(data) >= MaxSize:
		return nil, fmt.Errorf("it would be larger than %d bytes", MaxSize)
	}
	return append(data, '\n'), nil
}

// ParseServer reads what `yuba spire show` printed.
func ParseServer(data []byte) (Server, error) {
	return parse("what the spire node says of itself", data, Server.check)
}

// ParseHandoff reads a hand-off. Its errors show nothing of the kubeconfig.
func ParseHandoff(data []byte) (Handoff, error) { return parse("hand-off", data, Handoff.check) }

// ParseRetirement reads a retirement.
func ParseRetirement(data []byte) (Retirement, error) {
	return parse("retirement", data, Retirement.check)
}

// ParseDrop reads the drop-file of that name, which must be the one that its
// content asks for: then no two files of a directory speak of one node.
func ParseDrop(name string, data []byte) (Drop, error) {
	return parse(fmt.Sprintf("drop-file %q", name), data, func(d Drop) error {
		if err := d.check(); err != nil {
			return err
		}
		if want := d.Identity().DropFile(); name != want {
			return fmt.Errorf("it speaks of node %s of namespace %s and must have the name %s", d.Node, d.Namespace, want)
		}
		return nil
	})
}

// parse reads a document that passes its check. What is the document in errors.
func parse[T any](what string, data []byte, check func(T) error) (T, error) {
	var document, none T
	err := strict(data, &document)
	if err == nil {
		err = check(document)
	}
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return document, nil
}

// strict decodes a document of this version: keys as they are written, none
// twice, none unknown, nothing behind.
func strict(data []byte, into any) error {
	if len(data) > MaxSize {
		return fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	// Another version may have other keys, so it is looked at first.
	var v struct {
		Version *int `json:"version"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &v); err != nil {
		return notJSON(err)
	}
	switch {
	case v.Version == nil:
		return errors.New("it has no version")
	case *v.Version != Version:
		return fmt.Errorf("it is of version %d, this yuba speaks version %d: both ends must run a yuba that speaks the same", *v.Version, Version)
	}
	return strictly(data, into)
}

func strictly(data []byte, into any) error {
	others, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return notJSON(err)
	}
	return errors.Join(others...)
}

// notJSON is a decoder's error without what it shows of the document: a value
// may be a secret, or be long.
func notJSON(err error) error {
	if is, at := kjson.SyntaxErrorOffset(err); is {
		return fmt.Errorf("it is not JSON: wrong at byte %d", at)
	}
	if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
		return fmt.Errorf("it has a value of a wrong type at byte %d", kind.Offset)
	}
	return errors.New("it is not a JSON object of the expected form")
}

// The rules are not regular expressions: each start of the program would pay for
// making them.

const (
	lower  = "abcdefghijklmnopqrstuvwxyz0123456789"
	letter = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// within tells whether s is 1 to most characters, all of them of the set.
func within(s string, most int, set string) bool {
	return s != "" && len(s) <= most && strings.Trim(s, set) == ""
}

// named is within for names, which begin and end with a letter or digit.
func named(s string, most int, set, inside string) bool {
	return within(s, most, set+inside) && !strings.Contains(inside, s[:1]) && !strings.Contains(inside, s[len(s)-1:])
}

// dnsLabel is the rule of RFC 1123 for one.
func dnsLabel(s string) bool { return named(s, 63, lower, "-") }

func isLabel(what, s string) error {
	if !dnsLabel(s) {
		return fmt.Errorf(`%s %.80q is not a DNS label (RFC 1123): 1 to 63 of a-z, 0-9 and "-", with a letter or digit at both ends`, what, s)
	}
	return nil
}

// IsTrustDomain is the rule of SPIFFE-ID, section 2.1.
func IsTrustDomain(s string) error {
	if !within(s, 255, lower+"._-") {
		return fmt.Errorf(`%.80q is not a trust domain (SPIFFE-ID): 1 to 255 of a-z, 0-9, ".", "-" and "_"`, s)
	}
	return nil
}

// IsMachineID is the rule of machine-id(5).
func IsMachineID(s string) error {
	if len(s) != 32 || !within(s, 32, "0123456789abcdef") {
		return fmt.Errorf("%.80q is not a machine id: 32 of 0-9 and a-f", s)
	}
	return nil
}

func (s Server) check() error {
	err := areAuthorities(s.Bundle)
	if err != nil {
		err = fmt.Errorf("bundle: %w", err)
	}
	return errors.Join(IsMachineID(s.MachineID), IsTrustDomain(s.TrustDomain), err)
}

// areAuthorities is the rule of certificates in PEM with nothing around them: at
// least one.
func areAuthorities(text string) error {
	n := 0
	rest := []byte(text)
	for ; len(strings.TrimSpace(string(rest))) > 0; n++ {
		var block *pem.Block
		// pem.Decode passes over what is no block.
		if rest = []byte(strings.TrimLeft(string(rest), " \t\r\n")); !strings.HasPrefix(string(rest), "-----BEGIN CERTIFICATE-----") {
			return errors.New("it has something else than certificates in PEM")
		}
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return errors.New("it is not PEM")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("certificate %d: %w", n+1, err)
		}
	}
	if n == 0 {
		return errors.New("it has no certificate")
	}
	return nil
}

// Identities are the nodes of the hand-off, sorted by name.
func (h Handoff) Identities() []Identity {
	var out []Identity
	for _, node := range slices.Sorted(slices.Values(h.Nodes)) {
		out = append(out, Identity{h.Namespace, node})
	}
	return out
}

func (h Handoff) check() error {
	if err := isLabel("namespace", h.Namespace); err != nil {
		return err
	}
	if h.MachineID != "" {
		if err := IsMachineID(h.MachineID); err != nil {
			return err
		}
	}
	switch n := len(h.Nodes); {
	case n == 0:
		return errors.New("it has no node: a namespace without nodes is retired")
	case n > MaxNodes:
		return fmt.Errorf("it has %d nodes, more than %d", n, MaxNodes)
	}
	seen := map[string]bool{}
	for _, node := range h.Nodes {
		if err := isLabel("node", node); err != nil {
			return err
		}
		if seen[node] {
			return fmt.Errorf("node %s is there twice", node)
		}
		seen[node] = true
	}
	_, err := ParseKubeconfig([]byte(h.Kubeconfig))
	return err
}

func (r Retirement) check() error { return isLabel("namespace", r.Namespace) }

func (d Drop) check() error {
	if err := errors.Join(isLabel("namespace", d.Namespace), isLabel("node", d.Node)); err != nil {
		return err
	}
	switch want := NewDrop(d.Identity()); {
	case d.Version != Version:
		return fmt.Errorf("it is of version %d, not %d", d.Version, Version)
	case d.Audience != want.Audience:
		return fmt.Errorf("audience is %.80q, must be %q", d.Audience, want.Audience)
	case d.Kubeconfig != want.Kubeconfig:
		return fmt.Errorf("kubeconfig is %.80q, must be %q", d.Kubeconfig, want.Kubeconfig)
	}
	return nil
}

// isServerURL is the rule of an API server's address.
func isServerURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || len(s) > 2048:
		return errors.New("the API server's address is not a URL")
	case u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("the API server's address must begin with https:// and have a host")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the API server's address must have no user, query or fragment")
	}
	return nil
}
