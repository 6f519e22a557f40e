package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	maxAttempts = 5
	firstWait   = 500 * time.Millisecond
	// maxWait bounds what a Retry-After can ask for.
	maxWait = 2 * time.Minute
)

type hintKey struct{}

// hint carries the Retry-After of the last response from the transport to the loop, and whether the attempt got further.
type hint struct {
	after    atomic.Int64
	advanced atomic.Bool
}

// Advanced is for what Retry calls: this attempt got further than the ones before, so the next ones are counted anew. A
// long upload may be cut more often than a short one.
func Advanced(ctx context.Context) {
	if h, ok := ctx.Value(hintKey{}).(*hint); ok {
		h.advanced.Store(true)
	}
}

// ErrAgain marks a failure that a new attempt may get past, where Retry could not see it from the error itself.
var ErrAgain = errors.New("the upload has to start again")

// Retry calls op until it succeeds, fails for good, or has failed maxAttempts times without getting further. patient also waits for a registry
// that refuses connections, as one does while it restarts in the middle of an upload.
func (c *Client) Retry(ctx context.Context, patient bool, op func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		h := new(hint)
		err := op(context.WithValue(ctx, hintKey{}, h))
		if h.advanced.Load() {
			attempt = 1
		}
		if err == nil || ctx.Err() != nil || attempt == maxAttempts || !temporary(err, patient) {
			return err
		}
		// half to full step, so that many nodes don't come back at the same moment
		step := firstWait << (attempt - 1)
		wait := step/2 + rand.N(step/2)
		if after := time.Duration(h.after.Load()); after > maxWait {
			return fmt.Errorf("%w (it asks to be left alone for %s: try again then)", err, after)
		} else if after > wait {
			wait = after
		}
		if err := c.o.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// temporary tells whether the same request may succeed in a moment.
func temporary(err error, patient bool) bool {
	if errors.Is(err, ErrAgain) {
		return true
	}
	if te := (*transport.Error)(nil); errors.As(err, &te) {
		switch te.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		return patient && errors.Is(err, syscall.ECONNREFUSED)
	}
	// net.ErrClosed: the transport has closed the connection under a write, because the peer did.
	for _, again := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, os.ErrDeadlineExceeded} {
		if errors.Is(err, again) {
			return true
		}
	}
	return false
}
