// Package state is a client of OpenTofu's HTTP state protocol: one state at
// one address, with GET, POST (or another update method), DELETE, LOCK and
// UNLOCK. It works with every server that OpenTofu's own client works with,
// and is stricter about what it believes: a lost answer is resolved by asking
// the server again, never by guessing, and every error says whether the state
// is saved and whether it is still locked.
package state

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DefaultMaxStateBytes bounds a state that the client reads or writes.
const DefaultMaxStateBytes = 256 << 20

// Config says where the state is and how to talk to its server. The zero
// value of every field but Address is usable; ConfigFromEnv gives the defaults
// that OpenTofu has.
type Config struct {
	// Address is the URL of the state (TF_HTTP_ADDRESS). User and password
	// in it are used, and never shown.
	Address string
	// UpdateMethod writes the state; POST when empty.
	UpdateMethod string

	// LockAddress is where the lock is taken; the state's own address when
	// empty. Only then does an answer of 404, 405 or 501 mean that the server
	// has no locks, which is reported through Warn.
	LockAddress string
	// LockMethod takes the lock; LOCK when empty.
	LockMethod string
	// UnlockAddress is where the lock is released; the lock's address when empty.
	UnlockAddress string
	// UnlockMethod releases the lock; UNLOCK when empty.
	UnlockMethod string

	// Username and Password are sent as basic auth when Username is set,
	// and then win over a user in an address.
	Username, Password string
	// Headers are sent with every request. OpenTofu has no environment
	// variable for them, so neither has yuba.
	Headers map[string]string

	// SkipCertVerification accepts any certificate of the server.
	SkipCertVerification bool
	// CACertificatePEM, when set, replaces the system's certificate authorities.
	CACertificatePEM string
	// ClientCertificatePEM and ClientPrivateKeyPEM identify the client (mTLS).
	ClientCertificatePEM, ClientPrivateKeyPEM string

	// RetryMax is how often a request is repeated after a failure that can
	// heal; 0 means never.
	RetryMax int
	// RetryWaitMin and RetryWaitMax bound the wait before a repetition,
	// which doubles each time. A server's Retry-After is kept to within them.
	RetryWaitMin, RetryWaitMax time.Duration
	// AttemptTimeout bounds one request with its answer; 5 minutes when 0.
	AttemptTimeout time.Duration

	// MaxStateBytes bounds a state; DefaultMaxStateBytes when 0.
	MaxStateBytes int64
	// Warn, when set, gets a sentence that the user should read.
	Warn func(string)
}

// String shows the address without credentials, and nothing secret.
func (c Config) String() string { return "state at " + redactURL(c.Address) }

// GoString is String, so that no way of printing a Config shows a secret.
func (c Config) GoString() string { return c.String() }

// ConfigFromEnv reads the TF_HTTP_* variables, with OpenTofu's defaults. As in
// OpenTofu an empty variable counts as unset.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	c := Config{
		Address:              getenv("TF_HTTP_ADDRESS"),
		UpdateMethod:         getenv("TF_HTTP_UPDATE_METHOD"),
		LockAddress:          getenv("TF_HTTP_LOCK_ADDRESS"),
		LockMethod:           getenv("TF_HTTP_LOCK_METHOD"),
		UnlockAddress:        getenv("TF_HTTP_UNLOCK_ADDRESS"),
		UnlockMethod:         getenv("TF_HTTP_UNLOCK_METHOD"),
		Username:             getenv("TF_HTTP_USERNAME"),
		Password:             getenv("TF_HTTP_PASSWORD"),
		CACertificatePEM:     getenv("TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"),
		ClientCertificatePEM: getenv("TF_HTTP_CLIENT_CERTIFICATE_PEM"),
		ClientPrivateKeyPEM:  getenv("TF_HTTP_CLIENT_PRIVATE_KEY_PEM"),
	}
	if c.Address == "" {
		return Config{}, errors.New("TF_HTTP_ADDRESS is not set: it names the URL of the state, for example https://state.example.org/group")
	}
	if v := getenv("TF_HTTP_SKIP_CERT_VERIFICATION"); v != "" {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return Config{}, fmt.Errorf("TF_HTTP_SKIP_CERT_VERIFICATION is %q: set it to true or false", v)
		}
		c.SkipCertVerification = b
	}
	number := func(name string, def int) (int, error) {
		v := getenv(name)
		if v == "" {
			return def, nil
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 1_000_000 {
			return 0, fmt.Errorf("%s is %q: set it to a whole number from 0 up", name, v)
		}
		return n, nil
	}
	var err error
	if c.RetryMax, err = number("TF_HTTP_RETRY_MAX", 2); err != nil {
		return Config{}, err
	}
	lo, err := number("TF_HTTP_RETRY_WAIT_MIN", 1)
	if err != nil {
		return Config{}, err
	}
	hi, err := number("TF_HTTP_RETRY_WAIT_MAX", 30)
	if err != nil {
		return Config{}, err
	}
	c.RetryWaitMin, c.RetryWaitMax = time.Duration(lo)*time.Second, time.Duration(hi)*time.Second
	return c, nil
}

// endpoint is an address split into what is sent and what may be shown.
type endpoint struct {
	url            *url.URL // without userinfo
	user, password string
	shown          string // for errors: no userinfo, no query values
}

// parseEndpoint names the variable, never the value: what doesn't parse as a
// URL may well be one with a password in an unexpected place.
func parseEndpoint(variable, raw string) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Fragment != "" || u.Opaque != "" {
		return endpoint{}, fmt.Errorf("%s is not a URL (special characters in a user or password must be percent-encoded; better use TF_HTTP_USERNAME and TF_HTTP_PASSWORD)", variable)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return endpoint{}, fmt.Errorf("%s must be an http or https URL", variable)
	}
	e := endpoint{shown: redactURL(raw)}
	if u.User != nil {
		e.user = u.User.Username()
		e.password, _ = u.User.Password()
		u.User = nil
	}
	e.url = u
	return e, nil
}

func validHeaders(headers map[string]string, username string) error {
	for name, value := range headers {
		bad := name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
		})
		switch {
		case bad:
			return fmt.Errorf("header %q: a name has only A-Z, a-z, 0-9, - and _", name)
		case strings.TrimSpace(value) == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return fmt.Errorf("header %q: a value has only printable ASCII characters and is not empty", name)
		}
		switch http.CanonicalHeaderKey(name) {
		case "Content-Type", "Content-Md5", "Content-Length", "Host":
			return fmt.Errorf("header %q is reserved", name)
		case "Authorization":
			if username != "" {
				return fmt.Errorf("header %q cannot be set when a username is", name)
			}
		}
	}
	return nil
}
