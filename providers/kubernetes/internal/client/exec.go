package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Commands in containers go over WebSockets, with the API server's subprotocols
// v5 and v4 (k8s.io/apimachinery/pkg/util/remotecommand). Both are alike for a
// command without input: the server sends messages whose first byte is a
// channel. client-go's remotecommand does that too, with two more modules and
// more than a megabyte.
const (
	channelStdout = 1
	channelStderr = 2
	channelError  = 3 // a Status, when the command has ended

	protocolV5 = "v5.channel.k8s.io"
	protocolV4 = "v4.channel.k8s.io"

	// maxMessage bounds one message, in bytes. Servers send 32 KiB at most.
	maxMessage = 1 << 20
	// maxControl is the protocol's bound for a ping or close.
	maxControl = 125
)

// ExitError says that a command in a container ended with a code other than 0.
type ExitError struct {
	Code   int
	Stderr string // its first lines
}

func (e *ExitError) Error() string {
	s := fmt.Sprintf("it ended with exit code %d", e.Code)
	if e.Stderr != "" {
		s += ": " + e.Stderr
	}
	return s
}

// Exec runs a command in a container of a pod and gives the first max bytes of
// what it prints; what comes after is dropped. A command that ends with another
// code than 0 is an *ExitError, with its output. When ctx ends, the connection
// does too, and the runtime ends the command or not.
func (c *Client) Exec(ctx context.Context, namespace, pod, container string, command []string, max int) ([]byte, error) {
	stdout := limited{max: max}
	err := c.ExecTo(ctx, namespace, pod, container, command, &stdout)
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return stdout.Bytes(), err
}

// ExecTo is Exec for a command whose output goes to w as it comes. An error of w
// ends it.
func (c *Client) ExecTo(ctx context.Context, namespace, pod, container string, command []string, w io.Writer) error {
	r := request{method: http.MethodGet, path: Builtin("v1", "Pod").path(namespace, pod) + "/exec",
		query: url.Values{"container": {container}, "command": command, "stdout": {"true"}, "stderr": {"true"}}}
	conn, err := c.upgrade(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return c.explain(r, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	out, stderr := &sink{w: w}, limited{max: 1 << 10}
	status, err := readStreams(conn, out, &stderr)
	switch {
	case out.err != nil:
		return out.err
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("the connection to the pod broke: %w", err)
	}
	return exitOf(status, strings.TrimSpace(stderr.String()))
}

// sink remembers that its writer took no more.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (n int, err error) {
	n, s.err = s.w.Write(p)
	return n, s.err
}

// exitOf reads the Status that ends a command.
func exitOf(s metav1.Status, stderr string) error {
	if s.Status == metav1.StatusSuccess {
		return nil
	}
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if code, err := strconv.Atoi(cause.Message); cause.Type == "ExitCode" && err == nil {
				return &ExitError{Code: code, Stderr: stderr}
			}
		}
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// limited keeps the first max bytes.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), l.max-l.Len())])
	return len(p), nil
}

// readStreams reads messages until the one that ends the command, or that a
// writer doesn't take.
func readStreams(conn io.ReadWriter, stdout, stderr io.Writer) (status metav1.Status, err error) {
	in := bufio.NewReader(conn)
	for {
		message, err := readMessage(in, conn)
		if err != nil {
			return status, err
		}
		if len(message) == 0 {
			continue
		}
		switch message[0] {
		case channelStdout:
			if _, err := stdout.Write(message[1:]); err != nil {
				return status, err
			}
		case channelStderr:
			if _, err := stderr.Write(message[1:]); err != nil {
				return status, err
			}
		case channelError:
			return status, json.Unmarshal(message[1:], &status)
		}
	}
}

// Opcodes of RFC 6455.
const (
	opContinue = 0
	opClose    = 8
	opPing     = 9
	opPong     = 10
)

// readMessage reads one message as RFC 6455 frames it, and answers pings in
// between.
func readMessage(in *bufio.Reader, out io.Writer) ([]byte, error) {
	var message []byte
	for {
		var head [2]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, err
		}
		final, op, length := head[0]&0x80 != 0, head[0]&0x0f, uint64(head[1]&0x7f)
		if head[0]&0x70 != 0 || head[1]&0x80 != 0 {
			return nil, errors.New("the server sends frames that were not agreed on")
		}
		switch length {
		case 126:
			var n uint16
			if err := binary.Read(in, binary.BigEndian, &n); err != nil {
				return nil, err
			}
			length = uint64(n)
		case 127:
			if err := binary.Read(in, binary.BigEndian, &length); err != nil {
				return nil, err
			}
		}
		if length > maxMessage-uint64(len(message)) || op >= opClose && length > maxControl {
			return nil, errors.New("the server sends a message that is too large")
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(in, payload); err != nil {
			return nil, err
		}
		switch op {
		case opClose:
			return nil, io.ErrUnexpectedEOF
		case opPing:
			if err := writeFrame(out, opPong, payload); err != nil {
				return nil, err
			}
		case opPong:
		default:
			message = append(message, payload...)
			if final {
				return message, nil
			}
		}
	}
}

// writeFrame sends a control frame: of a client, these are masked.
func writeFrame(out io.Writer, op byte, payload []byte) error {
	frame := append([]byte{0x80 | op, 0x80 | byte(len(payload))}, make([]byte, 4)...)
	mask := frame[2:6]
	if _, err := rand.Read(mask); err != nil {
		return err
	}
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	_, err := out.Write(frame)
	return err
}

// upgrade opens a WebSocket.
func (c *Client) upgrade(ctx context.Context, r request) (io.ReadWriteCloser, error) {
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	key := base64.StdEncoding.EncodeToString(nonce[:])
	r.header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {key},
		"Sec-Websocket-Protocol": {protocolV5 + ", " + protocolV4},
	}
	hc, err := c.http1()
	if err != nil {
		return nil, err
	}
	resp, err := c.openWith(ctx, hc, r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return nil, err
		}
		return nil, statusError(resp, body)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	protocol := resp.Header.Get("Sec-WebSocket-Protocol")
	if !ok || resp.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) || protocol != protocolV5 && protocol != protocolV4 {
		resp.Body.Close()
		return nil, errors.New("the answer to the upgrade is none of a WebSocket for commands")
	}
	return conn, nil
}
