package kubernetes

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"fediversity.eu/yuba/providers/kubernetes/internal/client"
)

const (
	// lookTime is how long a verdict that is due waits at least for an API server
	// that is away: longer than HTTP/2 takes to notice that a connection is dead (45 s).
	lookTime = time.Minute
	// recordTime is the same for the record of a rollout that is complete.
	recordTime = time.Minute
	// refusedTime is how long a refusal must last until it is believed. An API
	// server that starts refuses everybody until it has read its roles and
	// service accounts.
	refusedTime = 5 * time.Second
	// tryAgain is the pause after a request that got no answer. The client has
	// tried several times by then.
	tryAgain = time.Second
)

// tolerance tells errors that can be waited out from those that can't. The zero
// value is ready.
type tolerance struct {
	refused time.Time
	last    error // since the last answer
}

// allows says whether to try again after err: the API server was away, or has
// refused for a short time only.
func (t *tolerance) allows(err error, now time.Time) bool {
	t.last = err
	switch {
	case client.Transient(err):
		t.refused = time.Time{}
		return true
	case !isRefusal(err):
		return false
	case t.refused.IsZero():
		t.refused = now
	}
	return now.Sub(t.refused) < refusedTime
}

// answered ends what was waited out.
func (t *tolerance) answered() { *t = tolerance{} }

// unseen is what to add to the last thing that is known: that there have been only
// errors since.
func (t *tolerance) unseen() string {
	if t.last == nil {
		return ""
	}
	return "\nThat may be old, for since then nobody could look: " + t.last.Error()
}

func isRefusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// patiently does work until it succeeds, fails for good, or time is over; the
// error is that of the last try. Work must bear to be done twice.
func patiently(ctx context.Context, within time.Duration, work func(context.Context) error) error {
	wctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var errs tolerance
	var last error
	for {
		err := work(wctx)
		if err == nil {
			return nil
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err // and not that time was over while it was tried again
		}
		if !errs.allows(err, time.Now()) || !sleep(wctx, tryAgain) {
			return last
		}
	}
}
