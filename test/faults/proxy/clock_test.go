package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"fediversity.eu/yuba/test/faults/proxy"
)

func TestClock(t *testing.T) {
	const said = `{"a":"2026-01-31T23:59:59Z","b":"2026-01-31T23:00:00.123456Z","c":"no time"}` + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Sat, 31 Jan 2026 23:59:59 GMT")
		w.Header().Set("Content-Type", "application/json")
		for range 2 { // the second after a jump
			_, _ = io.WriteString(w, said)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	defer server.Close()
	p := proxy.New()
	defer p.Close()
	lines := 0
	f, err := p.Front(proxy.Server{Name: "server", URL: server.URL, Clock: func() time.Duration {
		if lines++; lines > 3 { // the header and two times
			return -time.Hour
		}
		return time.Hour
	}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":"2026-02-01T00:59:59Z","b":"2026-02-01T00:00:00.123456Z","c":"no time"}` + "\n" +
		`{"a":"2026-01-31T22:59:59Z","b":"2026-01-31T22:00:00.123456Z","c":"no time"}` + "\n"
	if string(body) != want || resp.Header.Get("Date") != "Sun, 01 Feb 2026 00:59:59 GMT" {
		t.Errorf("%s: %s", resp.Header.Get("Date"), body)
	}
}
