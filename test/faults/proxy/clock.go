package proxy

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// instant is a time in JSON, as Kubernetes writes it: to the second, or with a
// fraction.
var instant = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)

// seconds is the part of it without the fraction.
const seconds = "2006-01-02T15:04:05"

// shift makes an answer one of a server whose clock is ahead of ours: what it
// says of times, and the header Date. A watch is shifted event by event.
func shift(resp *http.Response, ahead func() time.Duration) {
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		resp.Header.Set("Date", at.Add(ahead()).Format(http.TimeFormat))
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		resp.Body = &shifted{Closer: resp.Body, lines: bufio.NewReader(resp.Body), ahead: ahead}
	}
}

// shifted are the lines of JSON with other times. Their length stays.
type shifted struct {
	io.Closer
	lines *bufio.Reader
	ahead func() time.Duration
	line  []byte
	err   error
}

func (s *shifted) Read(buf []byte) (int, error) {
	if len(s.line) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.line, s.err = s.lines.ReadBytes('\n')
		s.line = instant.ReplaceAllFunc(s.line, func(text []byte) []byte {
			at, err := time.Parse(seconds, string(text[1:1+len(seconds)]))
			if err != nil {
				return text // the 30th of February
			}
			return append([]byte(`"`+at.Add(s.ahead()).Format(seconds)), text[1+len(seconds):]...)
		})
	}
	n := copy(buf, s.line)
	s.line = s.line[n:]
	return n, nil
}
