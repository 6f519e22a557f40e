// Package route works out how the spire node is reached in one run: what the configuration says of it, below what
// SSH_NODES and SSH_USER say.
package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"

	"fediversity.eu/yuba/spire/reach"
)

// EnvNodes is the environment variable that has coordinates of machines by their names.
const EnvNodes = "SSH_NODES"

// maxNodes bounds SSH_NODES, in bytes. The kernel takes 128 KiB in one variable.
const maxNodes = 1 << 20

// entry is what SSH_NODES has on one machine. Anything may be left out.
type entry struct {
	User     string  `json:"user"`
	Port     int     `json:"port"`
	HostKey  lines   `json:"hostKey"`
	HostKeys lines   `json:"hostKeys"`
	Options  options `json:"options"`
}

// decode reads a part of SSH_NODES, and refuses what it doesn't know.
func decode[T any](data []byte) (T, error) {
	var got, none T
	others, err := kjson.UnmarshalStrict(data, &got)
	if err == nil && len(others) > 0 {
		err = others[0]
	}
	if err != nil {
		return none, decodeError(err)
	}
	return got, nil
}

// parseNodes reads SSH_NODES: a JSON object of FQDN to entry. Neither names nor entries are looked at: those of machines
// that are not on the way are for others, whose ssh may know more.
func parseNodes(text string) (map[string]json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	nodes, err := decodeNodes(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvNodes, err)
	}
	return nodes, nil
}

func decodeNodes(text string) (map[string]json.RawMessage, error) {
	switch {
	case len(text) > maxNodes:
		return nil, fmt.Errorf("it is larger than %d bytes", maxNodes)
	case !utf8.ValidString(text):
		return nil, errors.New("it is not UTF-8")
	case strings.TrimLeft(text, " \t\r\n")[0] != '{':
		return nil, errors.New(`it is not a JSON object, {"FQDN": {"user": ..., "port": ..., "hostKeys": [...], "options": {...}}}`)
	}
	return decode[map[string]json.RawMessage]([]byte(text))
}

// decodeError keeps what a decoder's error says of the place, and not what it shows of a text that may be anything.
func decodeError(err error) error {
	var kind *json.UnmarshalTypeError
	syntax, at := kjson.SyntaxErrorOffset(err)
	switch {
	case syntax:
		return fmt.Errorf("it is not JSON: wrong at byte %d", at)
	case errors.As(err, &kind):
		return fmt.Errorf("%s is a %s, which it can't be", kind.Field, kind.Value)
	}
	return fmt.Errorf("%.200s; a machine has user, port, hostKey or hostKeys, and options", err.Error())
}

// canonical is the one form of a name in the DNS.
func canonical(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// lines is one text, or a list of them, each of any number of lines. Lines that say nothing are left out, such as the
// comments of ssh-keyscan.
type lines []string

func (l *lines) UnmarshalJSON(data []byte) error {
	var one string
	var many []string
	if json.Unmarshal(data, &one) == nil {
		many = []string{one}
	} else if err := json.Unmarshal(data, &many); err != nil {
		return errors.New("a host key is neither a text nor a list of texts")
	}
	*l = nil
	for _, text := range many {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				*l = append(*l, line)
			}
		}
	}
	return nil
}

// options are ssh options by name, or as the words that ssh(1) takes.
type options map[string]string

func (o *options) UnmarshalJSON(data []byte) error {
	var words []string
	if json.Unmarshal(data, &words) == nil {
		got, err := fromWords(words)
		*o = got
		return err
	}
	var named map[string]any
	twice, err := kjson.UnmarshalStrict(data, &named)
	if err != nil {
		return errors.New("options are neither an object nor a list of texts")
	}
	if len(twice) > 0 {
		return fmt.Errorf("options: %.200s", twice[0].Error())
	}
	*o = options{}
	for name, v := range named {
		switch v := v.(type) {
		case string:
			(*o)[name] = v
		case int64, float64:
			(*o)[name] = fmt.Sprint(v)
		case bool:
			(*o)[name] = map[bool]string{true: "yes", false: "no"}[v]
		default:
			return fmt.Errorf("option %.80q is neither text nor number nor truth value", name)
		}
	}
	return nil
}

// flags are those of ssh(1) that are short for an option.
var flags = map[string]string{"-p": "Port", "-l": "User", "-J": "ProxyJump"}

// fromWords reads "-o", "NAME=VALUE", also in one word or without the -o, and the flags.
func fromWords(words []string) (options, error) {
	out := options{}
	for i := 0; i < len(words); i++ {
		flag, value := "-o", words[i]
		if strings.HasPrefix(value, "-") {
			flag, value = value[:min(2, len(value))], value[min(2, len(value)):]
			if flag != "-o" && flags[flag] == "" {
				return nil, fmt.Errorf("option %.80q is not one that yuba knows; use -o NAME=VALUE with one of %s", flag, strings.Join(reach.Options(), ", "))
			}
			if value == "" {
				if i++; i == len(words) {
					return nil, fmt.Errorf("options end with %q, which needs a value", flag)
				}
				value = words[i]
			}
		}
		name := flags[flag]
		if flag == "-o" {
			cut := strings.IndexAny(value, "= \t")
			if cut <= 0 {
				return nil, fmt.Errorf("option %.80q has no value", value)
			}
			name, value = value[:cut], strings.TrimLeft(value[cut:], "= \t")
		}
		if _, ok := out[name]; ok {
			return nil, fmt.Errorf("option %.80q is there twice", name)
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}
