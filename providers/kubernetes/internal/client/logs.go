package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// LogOptions choose of a container's log.
type LogOptions struct {
	Container string
	Previous  bool  // of the container that ran before the last restart
	Tail      int64 // lines at the end; negative: all
	Follow    bool  // go on until the container ends

	// Since leaves out what is older; 0: nothing. Counted in whole seconds.
	Since time.Duration
	// Timestamps puts the time before each line.
	Timestamps bool
}

// Logs opens the log of a container; the caller closes it. It ends with ctx.
func (c *Client) Logs(ctx context.Context, namespace, pod string, o LogOptions) (io.ReadCloser, error) {
	q := url.Values{}
	setIf(q, "container", o.Container)
	if o.Previous {
		q.Set("previous", "true")
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	if o.Tail >= 0 {
		q.Set("tailLines", strconv.FormatInt(o.Tail, 10))
	}
	if o.Since > 0 {
		q.Set("sinceSeconds", strconv.FormatInt(int64((o.Since+time.Second-1)/time.Second), 10))
	}
	if o.Timestamps {
		q.Set("timestamps", "true")
	}
	r := request{method: http.MethodGet, path: Builtin("v1", "Pod").path(namespace, pod) + "/log", query: q}
	resp, err := c.open(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, c.explain(r, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	return nil, statusError(resp, body)
}
