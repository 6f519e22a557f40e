package state

import (
	"fmt"
	"net/http"
	"strings"
)

// LockedError says that the lock is someone else's: by status 409 or 423,
// whatever came with it.
type LockedError struct {
	// Op is what was tried: "lock", "unlock", "save state" or "delete state".
	Op string
	// URL is where, without credentials.
	URL string
	// Status is the HTTP status.
	Status int
	// Info is the holder's, as far as the server named it.
	Info LockInfo
	// Raw is the server's answer, bounded.
	Raw []byte
	// Words is what the server said when it named no holder, in one line.
	Words string
	// Outcome says how things stand now and what to do.
	Outcome string
}

// Holder is the holder's LockInfo as JSON with clean values, nil if the server
// did not name it.
func (e *LockedError) Holder() []byte {
	if e.Info.ID == "" {
		return nil
	}
	return e.Info.json()
}

func (e *LockedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: the state is locked", e.Op, e.URL)
	if e.Info.ID == "" {
		fmt.Fprintf(&b, " (%s), the server does not say by whom", statusText(e.Status))
		if e.Words != "" {
			fmt.Fprintf(&b, ": %q", e.Words)
		}
	} else {
		if e.Info.Who != "" {
			fmt.Fprintf(&b, " by %s", e.Info.Who)
		}
		if !e.Info.Created.IsZero() {
			fmt.Fprintf(&b, " since %s", e.Info.Created.UTC().Format("2006-01-02 15:04:05 UTC"))
		}
		if e.Info.Operation != "" {
			fmt.Fprintf(&b, " for %s", e.Info.Operation)
		}
		fmt.Fprintf(&b, ", lock ID %s", e.Info.ID)
	}
	if e.Outcome != "" {
		b.WriteString("; " + e.Outcome)
	}
	return b.String()
}

// StatusError is an answer that means neither success nor locked.
type StatusError struct {
	// Op is what was tried: "get state", "save state", "delete state", "lock" or "unlock".
	Op string
	// URL is where, without credentials.
	URL string
	// Status is the HTTP status.
	Status int
	// Location is where a redirect pointed, without credentials.
	Location string
	// Words is what the server said, in one line.
	Words string
	// Outcome says how things stand now and what to do.
	Outcome string
}

func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: the server answers %s", e.Op, e.URL, statusText(e.Status))
	if e.Words != "" {
		fmt.Fprintf(&b, ": %q", e.Words)
	}
	switch {
	case e.Status >= 300 && e.Status < 400:
		if e.Location != "" {
			fmt.Fprintf(&b, " to %s", e.Location)
		}
		b.WriteString(", which is not followed: set the address to where the state really is")
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		b.WriteString(": check TF_HTTP_USERNAME and TF_HTTP_PASSWORD")
	case e.Status == http.StatusRequestEntityTooLarge:
		b.WriteString(": raise the server's limit on the size of a request")
	}
	if e.Outcome != "" {
		b.WriteString("; " + e.Outcome)
	}
	return b.String()
}

// NotHeldError says that a lock that was to be released is not held: nobody holds
// one, or somebody else does.
type NotHeldError struct {
	// URL is where, without credentials.
	URL string
	// Status is the HTTP status of the refusal.
	Status int
	// ID is the lock's that was to be released.
	ID string
	// Holder is who holds the lock now; without an ID nobody does.
	Holder LockInfo
}

func (e *NotHeldError) Error() string {
	s := fmt.Sprintf("unlock: %s: the server answers %s: lock %s is not held any more", e.URL, statusText(e.Status), cleanText(e.ID, 128))
	switch {
	case e.Holder.ID == "":
		return s + ", and the state is not locked"
	case e.Holder.Who == "":
		return s + ", the lock is now " + e.Holder.ID
	}
	return s + ", " + e.Holder.Who + " holds the lock now (ID " + e.Holder.ID + ")"
}

// NotHeld tells this error from others where the type is not known.
func (e *NotHeldError) NotHeld() {}

// RequestError is a request without a usable answer: no connection, a cut one,
// or a body that is no state.
type RequestError struct {
	// Op is what was tried, as in StatusError.
	Op string
	// URL is where, without credentials.
	URL string
	// Err is the cause.
	Err error
	// Outcome says how things stand now and what to do.
	Outcome string
}

func (e *RequestError) Error() string {
	s := fmt.Sprintf("%s: %s: %v", e.Op, e.URL, e.Err)
	if e.Outcome != "" {
		s += "; " + e.Outcome
	}
	return s
}

// Unwrap is the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// withOutcome adds how things stand now to an error of this package.
func withOutcome(err error, outcome string) error {
	switch e := err.(type) {
	case *LockedError:
		e.Outcome = outcome
	case *StatusError:
		e.Outcome = outcome
	case *RequestError:
		e.Outcome = outcome
	default:
		return fmt.Errorf("%w; %s", err, outcome)
	}
	return err
}

func statusText(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}

// forceUnlock is the command that releases a lock, safe to paste.
func forceUnlock(id string) string {
	safe := id != "" && !strings.HasPrefix(id, "-") && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r == '-' || r == '_' || r == '.' || r == ':' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if !safe {
		id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	}
	return "yuba force-unlock " + id
}
