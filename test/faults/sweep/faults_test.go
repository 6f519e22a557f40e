package sweep

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"fediversity.eu/yuba/test/faults/proxy"
)

// kind is a way in which one request can go wrong.
type kind struct {
	name   string
	moment proxy.Moment
	harm   func(server string) proxy.Harm
	// says are the words, one of which an error has that comes of it; without
	// any, nothing comes of it.
	says []string
}

// How the end of a connection is told, by HTTP/1 and HTTP/2.
var ended = []string{"EOF", "connection reset", "INTERNAL_ERROR", "broken pipe", "ended after", "server closed", "connection lost", "closed network connection", "cuts the connection", "connection was cut"}

// answers is a harm that gives a status instead of an answer.
func answers(status int, headers ...string) func(string) proxy.Harm {
	return func(server string) proxy.Harm {
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		body := "out of order\n"
		if server == "api" && status == http.StatusInternalServerError { // as an API server says it, and not what is before it
			h.Set("Content-Type", "application/json")
			body = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"etcdserver: leader changed","code":500}`
		}
		return proxy.Harm{Status: status, Header: h, Body: body}
	}
}

func does(h proxy.Harm) func(string) proxy.Harm { return func(string) proxy.Harm { return h } }

var kinds = []kind{
	{"late", proxy.Before, does(proxy.Harm{Delay: 300 * time.Millisecond}), nil},
	{"cut before the effect", proxy.Before, does(proxy.Harm{Cut: true}), ended},
	{"cut in the body", proxy.Within, does(proxy.Harm{Cut: true}), ended},
	{"cut after the effect", proxy.After, does(proxy.Harm{Cut: true}), ended},
	{"reset before the effect", proxy.Before, does(proxy.Harm{Reset: true}), ended},
	{"reset after the effect", proxy.After, does(proxy.Harm{Reset: true}), ended},
	{"answer cut short", proxy.After, does(proxy.Harm{Truncate: true}), ended},
	{"429 with `Retry-After`", proxy.Before, answers(429, "Retry-After", "1"), []string{"429", "oo many requests"}},
	{"500 without the effect", proxy.Before, answers(500), []string{"500", "leader changed"}},
	{"500 after the effect", proxy.After, answers(500), []string{"500", "leader changed"}},
	{"503 without the effect", proxy.Before, answers(503), []string{"503", "navailable"}},
	{"503 after the effect", proxy.After, answers(503), []string{"503", "navailable"}},
}

// kindsOf are those that a request can have: only some have a body, and a
// connection of ssh has no answers.
func kindsOf(p proxy.Point) []kind {
	if p.Server == ssh {
		return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
			return k.moment == proxy.After || k.moment != p.Moment || k.harm(ssh).Status != 0
		})
	}
	if p.Method == http.MethodPost || p.Method == http.MethodPut || p.Method == http.MethodPatch {
		return kinds
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.moment == proxy.Within })
}

// fault is one that happened.
type fault struct {
	kind  kind
	point proxy.Point
}

func (f fault) String() string { return f.kind.name + " at " + f.point.String() }

// request is the request of a point.
func request(p proxy.Point) string {
	p.Moment = ""
	return strings.TrimSpace(p.String())
}

// manner is which of the requests of a life go wrong. It knows of nothing that
// differs between runs of the same life, so that a life can be lived again.
type manner interface {
	// at is what becomes of a request in the try-th run of a phase.
	at(phase string, try int, p proxy.Point) (kind, bool)
	// lasts is how often the same request goes wrong again when it is repeated.
	lasts() int
	String() string
}

func hash(parts ...any) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	// FNV's low bits know little of the last bytes.
	v := h.Sum64()
	v ^= v >> 32
	v *= 0xd6e8feb86659fd93
	return v ^ v>>32
}

// single is every stride-th request, once: over all shares, each request has each
// kind.
type single struct {
	seed          uint64
	share, stride int
}

func (s single) shares() int { return s.stride * len(kinds) }

func (s single) at(phase string, _ int, p proxy.Point) (kind, bool) {
	own := kindsOf(p)
	place := (hash(s.seed, phase, request(p)) + uint64(s.share)) % uint64(s.stride*len(own))
	k := own[place%uint64(len(own))]
	return k, place/uint64(len(own)) == 0 && k.moment == p.Moment
}

func (s single) lasts() int     { return 0 }
func (s single) String() string { return fmt.Sprintf("single faults, share %d", s.share) }

// lasting is few requests, each of which goes wrong in the same way when it is
// repeated.
type lasting struct {
	seed uint64
	life int
	nth  int
}

func (l lasting) at(phase string, try int, p proxy.Point) (kind, bool) {
	h := hash(l.seed, "lasting", l.life, phase, try, request(p))
	own := kindsOf(p)
	k := own[(h>>16)%uint64(len(own))]
	return k, h%uint64(l.nth) == 0 && k.moment == p.Moment
}

// A request is repeated fewer times. What has patience beyond that comes
// through, but not in each fourth life.
func (l lasting) lasts() int {
	if l.life%4 == 0 {
		return math.MaxInt
	}
	return 8
}

func (l lasting) String() string { return fmt.Sprintf("lasting faults %d", l.life) }

// storm is every n-th request, repeated ones too, in the first runs of a phase.
type storm struct {
	seed uint64
	life int
	nth  int
}

const stormy = 4

func (s storm) at(phase string, try int, p proxy.Point) (kind, bool) {
	if try >= stormy {
		return kind{}, false
	}
	h := hash(s.seed, "storm", s.life, phase, try, request(p))
	own := kindsOf(p)
	k := own[(h>>16)%uint64(len(own))]
	return k, h%uint64(s.nth) == 0 && k.moment == p.Moment
}

func (s storm) lasts() int     { return 0 }
func (s storm) String() string { return fmt.Sprintf("each %d-th request, storm %d", s.nth, s.life) }

// ways is connections to the spire node that are broken, in the first runs of a
// phase: before they are made, or after some of what the node says.
type ways struct {
	seed uint64
	life int
}

func (w ways) at(phase string, try int, p proxy.Point) (kind, bool) {
	if p.Server != ssh || try >= stormy {
		return kind{}, false
	}
	h := hash(w.seed, "ways", w.life, phase, try, request(p))
	own, nth := kindsOf(p), uint64(3)
	if p.Moment == proxy.Within {
		nth = 30 // of as many as there are in one
	}
	return own[(h>>16)%uint64(len(own))], h%nth == 0
}

func (w ways) lasts() int     { return 0 }
func (w ways) String() string { return fmt.Sprintf("ways to the spire node, %d", w.life) }

// found is faults that have been the end of this test before.
type found []struct{ phase, request, kind string }

var known = found{
	{"create", "api GET /apis/node.k8s.io/v1/runtimeclasses/systemd #1", "500 after the effect"}, // the error did not tell whose it was
	{"destroy", "api GET /api/v1/namespaces/* #5", "503 without the effect"},                     // nor that nobody could look any more
}

func (f found) at(phase string, _ int, p proxy.Point) (kind, bool) {
	for _, x := range f {
		if x.phase == phase && x.request == request(p) {
			i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == x.kind })
			return kinds[i], kinds[i].moment == p.Moment
		}
	}
	return kind{}, false
}

func (f found) lasts() int     { return math.MaxInt }
func (f found) String() string { return "what was found before" }

// table counts faults by kind and server.
type table map[string]map[string]int

func (t table) add(f fault) {
	if t[f.kind.name] == nil {
		t[f.kind.name] = map[string]int{}
	}
	t[f.kind.name][f.point.Server]++
}

func (t table) total() (n int) {
	for _, servers := range t {
		for _, c := range servers {
			n += c
		}
	}
	return n
}

// servers are the columns.
var servers = []string{"state", "registry", "api", ssh}

// write writes it as Markdown.
func (t table) write(w io.Writer) {
	fmt.Fprintf(w, "| Fault | state | registry | API server | sshd |\n|---|---|---|---|---|\n")
	sum := map[string]int{}
	for _, k := range kinds {
		fmt.Fprintf(w, "| %s |", k.name)
		for _, s := range servers {
			fmt.Fprintf(w, " %d |", t[k.name][s])
			sum[s] += t[k.name][s]
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "| all |")
	for _, s := range servers {
		fmt.Fprintf(w, " %d |", sum[s])
	}
	fmt.Fprintln(w)
}
