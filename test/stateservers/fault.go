package stateservers

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Fault is one way in which a request goes wrong.
type Fault struct {
	// Name says what the client gets to see.
	Name string
	// After: the server does what it was asked for, and then it goes wrong.
	// Otherwise the server never sees the request.
	After bool
	// Silence: from then on nothing answers, whatever it is asked for.
	Silence bool

	respond response
}

// response answers a request in the place of a server, whose own answer is real:
// empty unless the fault comes after the effect.
type response func(w http.ResponseWriter, r *http.Request, b *Broken, real *httptest.ResponseRecorder)

// movedTo is the path below which a broken server serves what was redirected.
const movedTo = "/moved"

// Broken is a server some of whose requests go wrong.
type Broken struct {
	Server
	// Hung, when set, is called when a client is left waiting for an answer, or
	// for the rest of one: whoever waits for a time limit needs to wait no more.
	Hung func(partly bool)

	mu      sync.Mutex
	fault   *Fault
	op      Op
	lasting bool
	silent  bool
	seen    []Op
}

// Once lets the next request for op go wrong; Silence lasts.
func (b *Broken) Once(op Op, f Fault) { b.set(op, f, false) }

// Always lets all requests for op go wrong from now on.
func (b *Broken) Always(op Op, f Fault) { b.set(op, f, true) }

// Mend ends all faults.
func (b *Broken) Mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault, b.silent = nil, false
}

func (b *Broken) set(op Op, f Fault, lasting bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault, b.op, b.lasting, b.silent, b.seen = &f, op, lasting, false, nil
}

// Seen are the requests since the last call of Once or Always.
func (b *Broken) Seen() []Op {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Op(nil), b.seen...)
}

// next is the fault of a request for op, nil if it goes well.
func (b *Broken) next(op Op) *Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, op)
	f := b.fault
	switch {
	case b.silent:
		return &Fault{respond: cut}
	case f == nil || op != b.op:
		return nil
	}
	b.silent = f.Silence
	if !b.lasting {
		b.fault = nil
	}
	return f
}

// ServeHTTP implements http.Handler.
func (b *Broken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, movedTo); ok {
		r.URL.Path = rest
		b.Server.ServeHTTP(w, r)
		return
	}
	f := b.next(b.Op(r))
	if f == nil {
		b.Server.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	real := httptest.NewRecorder()
	if f.After {
		b.Server.ServeHTTP(real, r)
	}
	f.respond(w, r, b, real)
}

// hijack takes the connection, so that anything can be written on it.
func hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // it is HTTP/1
	}
	return conn, buf
}

// reset ends a connection so that the other side sees an error.
func reset(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	conn.Close()
}

func cut(w http.ResponseWriter, _ *http.Request, _ *Broken, _ *httptest.ResponseRecorder) {
	conn, _ := hijack(w)
	reset(conn)
}

// short sends the real answer's first half, or when it has no body, the
// beginning of one that never was.
func short(w http.ResponseWriter, _ *http.Request, _ *Broken, real *httptest.ResponseRecorder) {
	conn, buf := hijack(w)
	body := real.Body.Bytes()
	fmt.Fprintf(buf, "HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s", real.Code, len(body)+2, body[:len(body)/2])
	_ = buf.Flush()
	reset(conn)
}

// half sends a whole answer with half of the body.
func half(w http.ResponseWriter, _ *http.Request, _ *Broken, real *httptest.ResponseRecorder) {
	w.WriteHeader(real.Code)
	_, _ = w.Write(real.Body.Bytes()[:real.Body.Len()/2])
}

// wrongSum sends another body than the one that Content-MD5 is of.
func wrongSum(w http.ResponseWriter, _ *http.Request, _ *Broken, real *httptest.ResponseRecorder) {
	w.Header().Set("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")
	w.WriteHeader(real.Code)
	_, _ = w.Write(real.Body.Bytes())
}

// hang sends nothing, or a part of the body and then nothing, until the client
// has had enough.
func hang(part bool) response {
	return func(w http.ResponseWriter, r *http.Request, b *Broken, real *httptest.ResponseRecorder) {
		if part {
			body := real.Body.Bytes()
			w.Header().Set("Content-Length", fmt.Sprint(len(body)+2))
			w.WriteHeader(real.Code)
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
		}
		if b.Hung != nil {
			b.Hung(part)
		}
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// says answers with a status and a body. Headers come in pairs.
func says(status int, body string, headers ...string) response {
	return func(w http.ResponseWriter, _ *http.Request, _ *Broken, _ *httptest.ResponseRecorder) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// redirects sends the client to the same path below a prefix, which may have
// another host.
func redirects(status int, prefix string) response {
	return func(w http.ResponseWriter, r *http.Request, _ *Broken, _ *httptest.ResponseRecorder) {
		w.Header().Set("Location", prefix+r.URL.RequestURI())
		w.WriteHeader(status)
	}
}

// Other is the LockInfo of somebody who holds the lock in a fault.
const Other = `{"ID":"0badc0de-1111-2222-3333-444444444444","Operation":"OperationTypeApply","Info":"","Who":"eve@ci-7","Version":"1.12.6","Created":"2026-01-02T03:04:05.678Z","Path":""}`

// page is what proxies and login services send instead of an answer.
const page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>\n"

const htmlType, jsonType = "text/html; charset=utf-8", "application/json"

// Group are faults that a client should take alike.
type Group struct {
	// Name is how documentation calls them.
	Name   string
	Faults []Fault
}

// each makes a fault for each status.
func each(statuses []int, respond func(status int) response) (out []Fault) {
	for _, s := range statuses {
		out = append(out, Fault{Name: fmt.Sprint(s), respond: respond(s)})
	}
	return out
}

// bodies makes a fault with this body for each status.
func bodies(statuses []int, body string, headers ...string) []Fault {
	return each(statuses, func(s int) response { return says(s, body, headers...) })
}

// Groups are all faults.
func Groups() []Group {
	locked := []int{http.StatusConflict, http.StatusLocked}
	down := []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	moved := []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}
	redirect := func(prefix string) []Fault {
		return each(moved, func(s int) response { return redirects(s, prefix) })
	}
	after := func(faults []Fault) []Fault {
		for i := range faults {
			faults[i].After = true
		}
		return faults
	}
	return []Group{
		{"connection cut before the effect", []Fault{{Name: "cut", respond: cut}}},
		{"connection cut after the effect", []Fault{{Name: "cut", After: true, respond: cut}}},
		{"cut before the effect, then silence", []Fault{{Name: "cut", Silence: true, respond: cut}}},
		{"cut after the effect, then silence", []Fault{{Name: "cut", After: true, Silence: true, respond: cut}}},
		{"no answer in time, without the effect", []Fault{{Name: "hang", respond: hang(false)}}},
		{"no answer in time, with the effect", []Fault{{Name: "hang", After: true, respond: hang(false)}}},
		{"body that never ends", []Fault{{Name: "hang", After: true, respond: hang(true)}}},
		{"body cut short", []Fault{{Name: "short", After: true, respond: short}}},
		{"body cut short, of the right length", []Fault{{Name: "half", After: true, respond: half}}},
		{"wrong `Content-MD5`", []Fault{{Name: "sum", After: true, respond: wrongSum}}},
		{"5xx without the effect", bodies(down, `{"message":"out of order"}`, "Content-Type", jsonType)},
		{"5xx with the effect", after(bodies(down, page, "Content-Type", htmlType))},
		{"503 with `Retry-After`", bodies([]int{http.StatusServiceUnavailable}, "busy", "Retry-After", "7")},
		{"429 with `Retry-After`", bodies([]int{http.StatusTooManyRequests}, "Retry later\n", "Retry-After", "7")},
		{"413", append(bodies([]int{http.StatusRequestEntityTooLarge}, "<html><head><title>413 Request Entity Too Large</title></head></html>", "Content-Type", htmlType),
			bodies([]int{http.StatusRequestEntityTooLarge}, `{"message":"413 Request Entity Too Large"}`, "Content-Type", jsonType)...)},
		{"409 or 423 with a LockInfo", bodies(locked, Other, "Content-Type", jsonType)},
		{"409 or 423 with nothing, a page, other JSON or text", append(append(bodies(locked, ""), bodies(locked, page, "Content-Type", htmlType)...),
			append(bodies(locked, `{"error":"in use"}`, "Content-Type", jsonType), bodies(locked, "somebody holds it")...)...)},
		{"400 with a LockInfo", bodies([]int{http.StatusBadRequest}, Other)},
		{"400 with nothing or a page", append(bodies([]int{http.StatusBadRequest}, ""), bodies([]int{http.StatusBadRequest}, page, "Content-Type", htmlType)...)},
		{"401, 403", append(bodies([]int{http.StatusUnauthorized, http.StatusForbidden}, page, "Content-Type", htmlType),
			bodies([]int{http.StatusUnauthorized, http.StatusForbidden}, `{"message":"no access"}`, "Content-Type", jsonType)...)},
		{"404", bodies([]int{http.StatusNotFound}, "not here")},
		{"405, 410, 412, 415, 422, 428, 501", bodies([]int{http.StatusMethodNotAllowed, http.StatusGone, http.StatusPreconditionFailed, http.StatusUnsupportedMediaType,
			http.StatusUnprocessableEntity, http.StatusPreconditionRequired, http.StatusNotImplemented}, "no")},
		{"301, 302, 307, 308 on the same host", redirect(movedTo)},
		{"301, 302, 307, 308 to another host", redirect("http://elsewhere.invalid")},
		{"200 with a page", bodies([]int{http.StatusOK}, page, "Content-Type", htmlType)},
		{"200 with other JSON", bodies([]int{http.StatusOK}, `{"message":"welcome"}`, "Content-Type", jsonType)},
		{"empty 200", bodies([]int{http.StatusOK}, "")},
		{"204", bodies([]int{http.StatusNoContent}, "")},
	}
}
