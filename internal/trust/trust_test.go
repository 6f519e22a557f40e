package trust

import (
	"strings"
	"testing"
)

// x509 reads SSL_CERT_FILE once in a process, so each case is the only one of its
// kind here; test/minimal has the others.
func TestAdviceNamesTheFileThatIsMissing(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "/nonexistent/ca.pem")
	t.Setenv("SSL_CERT_DIR", "/nonexistent")
	if got := Advice(); !strings.Contains(got, "/nonexistent/ca.pem, which is missing") {
		t.Errorf("the advice is %q", got)
	}
}
