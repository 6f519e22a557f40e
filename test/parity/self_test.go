package parity

import (
	"strings"
	"testing"
)

// What is made equal must not hide what isn't.
func TestNormalTextKeepsWhatDiffers(t *testing.T) {
	r := &runner{dir: "/tmp/case/yuba"}
	for _, c := range []struct {
		what, a, b string
		equal      bool
	}{
		{"ids of two runs", "id = 0e5ed4e2-8a0b-4a34-a5f5-3c4f9b9a1111\n", "id = 1e5ed4e2-8a0b-4a34-a5f5-3c4f9b9a2222\n", true},
		{"order of concurrent progress", "a: Creating...\nb: Creating...\n", "b: Creating...\na: Creating...\n", true},
		{"order of a plan's lines", "  + a = 1\n  + b = 2\n", "  + b = 2\n  + a = 1\n", false},
		{"progress that is missing", "a: Creating...\nb: Creating...\n", "a: Creating...\n", false},
		{"seconds", "a: Creation complete after 0s [id=x]\n", "a: Creation complete after 12s [id=x]\n", true},
		{"ids that are none", "a: Creation complete after 0s [id=x]\n", "a: Creation complete after 0s [id=y]\n", false},
		{"order of checks", `{"checks":[{"a":1},{"b":[2]}]}`, `{"checks":[{"b":[2]},{"a":1}]}`, true},
		{"status of checks", `{"checks":[{"a":"pass"}]}`, `{"checks":[{"a":"fail"}]}`, false},
		{"order of other lists", `{"list":[1,2]}`, `{"list":[2,1]}`, false},
		{"the folder", "in /tmp/case/yuba/x\n", "in <dir>/x\n", true},
		{"a serial", `"serial": 1,`, `"serial": 2,`, false},
	} {
		a, b := r.normal(c.a), r.normal(c.b)
		if d := difference(strings.Split(a, "\n"), strings.Split(b, "\n")); (d == "") != c.equal {
			t.Errorf("%s: difference is %q", c.what, d)
		}
	}
}
