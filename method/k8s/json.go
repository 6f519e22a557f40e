package k8s

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep the JSON of a group file may nest. The format itself
// needs four levels.
const maxDepth = 16

// kind is the type of a JSON value as errors name it.
type kind string

const (
	kindObject kind = "an object"
	kindArray  kind = "an array"
	kindString kind = "a string"
	kindNumber kind = "a number"
	kindBool   kind = "a boolean"
	kindNull   kind = "null"
)

// value is a JSON value. encoding/json's own decoding into structs is not
// enough for a file that decides what is deployed: it takes keys in any case,
// the last of duplicate keys, null for anything, and reports one error.
type value struct {
	kind    kind
	text    string // the string, or the literal of a number
	yes     bool   // the boolean
	members []member
	elems   []value
}

// member is one key of an object.
type member struct {
	key   string
	value value
}

// parseJSON reads one JSON document. Duplicate keys are added to r and the
// first one is kept. An error means that there is no usable document.
func parseJSON(r *report, data []byte) (value, error) {
	if !utf8.Valid(data) {
		return value{}, errors.New("is not UTF-8")
	}
	// The scan finds what a token reader lets pass, trailing data above all.
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line, column := position(data, syntax.Offset)
			return value{}, fmt.Errorf("is not JSON: line %d, column %d: %w", line, column, err)
		}
		return value{}, fmt.Errorf("is not JSON: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readValue(r, dec, "", 0)
	if err != nil {
		return value{}, err
	}
	return v, nil
}

func readValue(r *report, dec *json.Decoder, at path, depth int) (value, error) {
	if depth > maxDepth {
		return value{}, fmt.Errorf("is nested deeper than %d levels at %s", maxDepth, at)
	}
	token, err := dec.Token()
	if err != nil {
		return value{}, fmt.Errorf("is not JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			v := value{kind: kindArray}
			for dec.More() {
				elem, err := readValue(r, dec, at.element(len(v.elems)), depth+1)
				if err != nil {
					return value{}, err
				}
				v.elems = append(v.elems, elem)
			}
			_, err := dec.Token()
			return v, err
		}
		v := value{kind: kindObject}
		seen := map[string]bool{}
		for dec.More() {
			token, err := dec.Token()
			if err != nil {
				return value{}, fmt.Errorf("is not JSON: %w", err)
			}
			key, _ := token.(string)
			child, err := readValue(r, dec, at.child(key), depth+1)
			if err != nil {
				return value{}, err
			}
			if seen[key] {
				r.add(at.child(key), "duplicate key")
				continue
			}
			seen[key] = true
			v.members = append(v.members, member{key, child})
		}
		_, err := dec.Token()
		return v, err
	case string:
		return value{kind: kindString, text: t}, nil
	case json.Number:
		return value{kind: kindNumber, text: t.String()}, nil
	case bool:
		return value{kind: kindBool, yes: t}, nil
	default:
		return value{kind: kindNull}, nil
	}
}

// position turns an offset as encoding/json gives it (just after the offending
// byte) into a line and a column, both from 1.
func position(data []byte, offset int64) (line, column int) {
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[start:]) + 1
}

// fields are a JSON object whose keys are read one by one. Problems go to the
// report; what a method returns for a bad or missing value is its zero value.
type fields struct {
	r  *report
	at path
	m  map[string]value
}

// object reads v as an object that has no keys but known ones.
func (r *report) object(at path, v value, known ...string) fields {
	o := fields{r: r, at: at, m: map[string]value{}}
	if v.kind != kindObject {
		r.add(at, "is %s, must be an object", v.kind)
		return o
	}
	for _, m := range v.members {
		o.m[m.key] = m.value
		found := false
		for _, k := range known {
			found = found || k == m.key
		}
		if !found {
			r.add(at.child(m.key), "unknown key; the keys here are %s", strings.Join(known, ", "))
		}
	}
	return o
}

// has tells whether key is there and adds a problem if it is not but required.
func (o fields) has(key string, required bool) bool {
	_, ok := o.m[key]
	if !ok && required {
		o.r.add(o.at, "%s is missing", key)
	}
	return ok
}

// typed returns the value of key if it is there and of kind want.
func (o fields) typed(key string, want kind, required bool) (value, bool) {
	if !o.has(key, required) {
		return value{}, false
	}
	v := o.m[key]
	if v.kind != want {
		hint := ""
		if v.kind == kindNull {
			hint = "; leave the key out if there is nothing to say"
		}
		o.r.add(o.at.child(key), "is %s, must be %s%s", v.kind, want, hint)
		return value{}, false
	}
	return v, true
}

// string returns the string of key when it is there and obeys rule.
func (o fields) string(key string, required bool, rule func(string) error) string {
	v, ok := o.typed(key, kindString, required)
	if !ok {
		return ""
	}
	if err := rule(v.text); err != nil {
		o.r.add(o.at.child(key), "%v", err)
		return ""
	}
	return v.text
}

// child returns the object of key, and false when there is none to look at.
func (o fields) child(key string, required bool, known ...string) (fields, bool) {
	v, ok := o.typed(key, kindObject, required)
	if !ok {
		return fields{}, false
	}
	return o.r.object(o.at.child(key), v, known...), true
}
