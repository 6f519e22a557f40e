package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wire is a connection: what the server has sent, and what it is sent.
type wire struct {
	io.Reader
	sent bytes.Buffer
}

func (w *wire) Write(p []byte) (int, error) { return w.sent.Write(p) }

func frame(first byte, payload string) string {
	return string([]byte{first, byte(len(payload))}) + payload
}

const ended = `{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`

// A command's output in pieces, with a ping in between.
func TestStreamsOfACommand(t *testing.T) {
	w := &wire{Reader: strings.NewReader(
		frame(0x82, "\x01") + frame(0x82, "") + // as servers begin
			frame(0x02, "\x01out") + frame(0x89, "are you there") + frame(0x80, "put") +
			frame(0x82, "\x02oops\n") + frame(0x82, "\x01, and more") + frame(0x82, "\x03"+ended) + frame(0x88, "\x03\xe8"))}
	stdout, stderr := limited{max: 9}, limited{max: 100}
	status, err := readStreams(w, &stdout, &stderr)
	if err != nil || stdout.String() != "output, a" || stderr.String() != "oops\n" {
		t.Fatalf("%v, %q, %q", err, stdout.String(), stderr.String())
	}
	var exit *ExitError
	if err := exitOf(status, "oops"); !errors.As(err, &exit) || exit.Code != 3 || exit.Error() != "it ended with exit code 3: oops" {
		t.Errorf("%v", err)
	}
	if pong := w.sent.Bytes(); len(pong) != 2+4+len("are you there") || pong[0] != 0x8a || pong[1] != 0x80|byte(len("are you there")) {
		t.Errorf("the ping is answered by %q", pong)
	}
}

func TestStreamsThatBreak(t *testing.T) {
	for name, sent := range map[string]string{
		"closed":         frame(0x82, "\x01x") + frame(0x88, ""),
		"cut":            frame(0x82, "\x01x")[:3],
		"masked":         "\x82\x81abcdx",
		"compressed":     frame(0xc2, "\x01x"),
		"too large":      "\x82\x7f\x00\x00\x00\x7f\xff\xff\xff\xff",
		"large ping":     "\x89\x7e\xff\xff",
		"no status":      frame(0x82, "\x03nothing"),
		"much in pieces": strings.Repeat("\x02\x7e\xff\xff"+strings.Repeat("x", 0xffff), 20),
	} {
		if _, err := readStreams(&wire{Reader: strings.NewReader(sent)}, &limited{max: 10}, &limited{max: 10}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Whatever a server sends, the end is reached, and no more is kept than said.
func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(frame(0x82, "\x01out") + frame(0x82, "\x03"+ended)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if m, err := readMessage(bufio.NewReader(bytes.NewReader(sent)), io.Discard); err == nil && len(m) > len(sent) {
			t.Errorf("%d bytes of %d", len(m), len(sent))
		}
		out := limited{max: 5}
		status, err := readStreams(&wire{Reader: bytes.NewReader(sent)}, &out, &limited{})
		if out.Len() > 5 {
			t.Errorf("%d bytes are kept", out.Len())
		}
		if err == nil && exitOf(status, "") == nil && status.Status != metav1.StatusSuccess {
			data, _ := json.Marshal(status)
			t.Errorf("a success of %s", data)
		}
	})
}
