package parity

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// normalisers are what makes two runs of the same program equal, and nothing
// else. The order in which things happen at the same time is in sorted.
var normalisers = []struct {
	what string
	re   *regexp.Regexp
	with string
}{
	{"lineages, ids of terraform_data, random_uuid", regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{"ids of null_resource", regexp.MustCompile(`\b[0-9]{15,20}\b`), "<number>"},
	{"hashes of random_password", regexp.MustCompile(`\$2a\$10\$[./A-Za-z0-9]{53}`), "<bcrypt>"},
	{"salts, nonces and what is encrypted with them", regexp.MustCompile(`"(key_provider\.[a-z0-9_.]+|shared|encrypted_data)": ?"[A-Za-z0-9+/=]+"`), `"$1":"<encrypted>"`},
	{"that the lock takes longer than a moment", regexp.MustCompile(`(?m)^.*(Acquiring|Releasing) state lock\. This may take a few moments\.\.\..*\n`), ""},
	{"points in time", regexp.MustCompile(`\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})`), "<time>"},
	{"where a cycle is told from", regexp.MustCompile(`Cycle: [^"\n]+`), "Cycle: <objects>"},
	{"how long it took", regexp.MustCompile(`\b(after|elapsed_seconds":|elapsed\]?) ?[0-9]+s?`), "$1 <seconds>"},
}

// normal is a text that one of the programs wrote, without what differs from
// run to run.
func (r *runner) normal(text string) string {
	if r.p.states != "" {
		text = strings.ReplaceAll(text, r.address(), "<state>")
		text = strings.ReplaceAll(text, r.p.states, "<server>")
	}
	text = strings.ReplaceAll(text, r.dir, "<dir>")
	text = strings.ReplaceAll(text, filepath.Dir(r.dir), "<root>")
	for _, n := range normalisers {
		text = n.re.ReplaceAllString(text, n.with)
	}
	for _, list := range unordered {
		text = sortedList(text, list)
	}
	return sorted(sortedDiagnostics(text))
}

// unordered are the lists in states and plans that OpenTofu makes from maps,
// in no order.
var unordered = []string{`"relevant_attributes":`, `"check_results":`, `"checks":`}

// sortedList sorts the elements of a list that is a member of some object in
// JSON, and the elements of lists in these ("objects", "instances").
func sortedList(text, member string) string {
	at := strings.Index(text, member)
	if at < 0 {
		return text
	}
	rest := text[at+len(member):]
	d := json.NewDecoder(strings.NewReader(rest))
	var elements []json.RawMessage
	if err := d.Decode(&elements); err != nil || elements == nil {
		return text
	}
	var list []string
	for _, e := range elements {
		list = append(list, sortedList(sortedList(string(e), `"objects":`), `"instances":`))
	}
	slices.Sort(list)
	return text[:at+len(member)] + "[" + strings.Join(list, ",\n") + "]" + rest[d.InputOffset():]
}

// sortedDiagnostics puts the diagnostics in the answer to "validate -json" into
// an order of their own: what the walk finds at the same time comes in any.
func sortedDiagnostics(text string) string {
	const begin, between, end = "  \"diagnostics\": [\n", "    },\n", "    }\n  ]\n"
	head, rest, found := strings.Cut(text, begin)
	body, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return text
	}
	diags := strings.Split(body, between)
	slices.Sort(diags)
	return head + begin + strings.Join(diags, between) + end + tail
}

// concurrent are the lines that come in the order in which the walk of the
// graph happens to do things: about one object each, and diagnostics in JSON.
var concurrent = regexp.MustCompile(`^(\S+( \(deposed object [0-9a-f]+\))?: (Refreshing state\.\.\.|Reading\.\.\.|Read complete|Creating\.\.\.|Creation complete|Destroying\.\.\.|Destruction complete|Modifying\.\.\.|Modifications complete|Opening\.\.\.|Opening complete|Open complete|Closing\.\.\.|Closing complete|Close complete|Renewing\.\.\.|Provisioning with|Importing\.\.\.|Import complete|Preparing import\.\.\.|Drift detected|Still )|├── provider\[|\S+ \(local-exec\): |\{.*"type":"((refresh|apply|ephemeral_op|provision)_|planned_change"|resource_drift"|diagnostic"))`)

// sorted puts such lines in the order of the alphabet, to where the first of
// them is.
func sorted(text string) string {
	var moved, out []string
	at := -1
	for line := range strings.Lines(text) {
		if concurrent.MatchString(line) {
			if at < 0 {
				at = len(out)
			}
			moved = append(moved, line)
			continue
		}
		out = append(out, line)
	}
	if at < 0 {
		return text
	}
	slices.Sort(moved)
	return strings.Join(slices.Insert(out, at, moved...), "")
}
