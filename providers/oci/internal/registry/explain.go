package registry

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"unicode"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"fediversity.eu/yuba/internal/trust"
)

// Explain says in a sentence what went wrong with the registry, and in another one what to do. Neither has a URL
// (upload locations carry secrets) nor anything of the credentials. credentials says where those come from. todo ends
// with a full stop, or is empty where what says it all.
func Explain(err error, host, credentials string) (what, todo string) {
	var (
		plain   *plainError
		badHost x509.HostnameError
		invalid x509.CertificateInvalidError
		status  *transport.Error
		local   *localError
		away    *elsewhereError
		dns     *net.DNSError
	)
	const reach = "Check the address, and that the registry runs and can be reached from here."
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled", "Run again to go on."
	case errors.As(err, &local):
		return fmt.Sprintf("the registry %s was not asked: %s", host, local), ""
	case errors.As(err, &away):
		return away.Error(), "If the host is the registry's own, list it in the provider's upload_hosts (uploadHosts in a group file)."
	case trust.Unknown(err):
		return fmt.Sprintf("the certificate of %s is signed by an authority that is not known here", host),
			"Name its CA with ca_file (registry.caFile in a group file), or " + trust.Advice() + "."
	case errors.As(err, &badHost):
		return fmt.Sprintf("the certificate of %s is not for this name: %s", host, clean(badHost.Error())), "Use the name of the certificate."
	case errors.As(err, &invalid):
		return fmt.Sprintf("the certificate of %s is not valid: %s", host, clean(invalid.Error())), "Renew it, or check the clock of this machine."
	case errors.As(err, &status): // after the certificates: plain HTTP may have been tried after TLS
		return explainStatus(status, host, credentials)
	case errors.As(err, &dns):
		return fmt.Sprintf("the name of the registry %s can't be resolved (%s)", host, dns.Err), reach
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("the registry %s can't be reached: connection refused", host), reach
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("the registry %s can't be reached: no answer in time", host), reach
	case errors.As(err, &plain):
		return fmt.Sprintf("the registry %s does not answer over TLS, and %s", host, plain), reach
	// Where plain HTTP is allowed it was tried after TLS, and what then went wrong matters more.
	case errors.Is(err, http.ErrSchemeMismatch) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
		return fmt.Sprintf("the registry %s does not speak TLS", host), "Give it a certificate (and ca_file), or list it in the provider's plain_http."
	}
	for _, cut := range []error{net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, cut) {
			return fmt.Sprintf("the registry %s, or something on the way to it, cuts the connection", host),
				"Run again, look into its log, or check the network and its proxies."
		}
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return fmt.Sprintf("the registry %s can't be reached: no answer in time", host), reach
	}
	return fmt.Sprintf("the registry %s: %s", host, clean(bare(err))), reach
}

func explainStatus(te *transport.Error, host, credentials string) (what, todo string) {
	var said []string
	for _, d := range te.Errors {
		if d.Message != "" {
			said = append(said, string(d.Code)+": "+d.Message)
		} else {
			said = append(said, string(d.Code))
		}
	}
	status := fmt.Sprintf("%d %s", te.StatusCode, http.StatusText(te.StatusCode))
	// A token server may echo more of what we sent than can be taken out again.
	if len(said) > 0 && te.Request != nil && strings.HasPrefix(te.Request.URL.Path, "/v2/") {
		status += ", " + clean(scrub(strings.Join(said, "; "), te.Request))
	}
	switch {
	case te.StatusCode == http.StatusUnauthorized, te.StatusCode == http.StatusForbidden:
		return fmt.Sprintf("the registry %s does not let us in (%s)", host, status),
			fmt.Sprintf("Check the entry for it in %s, and that the account may push there.", credentials)
	case te.StatusCode == http.StatusRequestEntityTooLarge:
		return fmt.Sprintf("the registry %s, or a proxy before it, refuses uploads of this size (%s)", host, status),
			"Raise its limit of the request body."
	case te.StatusCode == http.StatusNotFound && te.Request != nil && strings.HasSuffix(te.Request.URL.Path, "/v2/"):
		return fmt.Sprintf("%s answers, but not as a registry (%s)", host, status), "Check the address."
	case te.StatusCode >= 500 || te.StatusCode == http.StatusTooManyRequests:
		return fmt.Sprintf("the registry %s can't do it now (%s)", host, status), "Try again later, or look into its log."
	}
	return fmt.Sprintf("the registry %s refuses (%s)", host, status), "Look into its log for the reason."
}

// bare is the error without the URLs that net/http puts around it.
func bare(err error) string {
	for {
		u := (*url.Error)(nil)
		if !errors.As(err, &u) {
			break
		}
		err = u.Err
	}
	// go-containerregistry quotes the token server's answer after a line break.
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// clean makes text from outside fit for a terminal: one line, printable, short.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "..."
	}
	return s
}

// scrub takes the request's credentials out of what the server echoes.
func scrub(s string, req *http.Request) string {
	if req == nil {
		return s
	}
	scheme, value, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	secrets := []string{value}
	if strings.EqualFold(scheme, "basic") {
		if b, err := base64.StdEncoding.DecodeString(value); err == nil {
			_, password, _ := strings.Cut(string(b), ":")
			secrets = append(secrets, string(b), password)
		}
	}
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	return s
}
