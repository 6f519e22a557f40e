package k8s

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// maxDuration keeps a typing error from holding the lock for weeks.
const maxDuration = 24 * time.Hour

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	hostPort     = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[1-9][0-9]{0,4})?$`)
	imageTag     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	sha256Digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	duration     = regexp.MustCompile(`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$`)
	quantity     = regexp.MustCompile(`^([0-9]{1,19}(?:\.[0-9]{0,9})?)([KMGTPE]i|[kmMGTPE]|[eE][+-]?[0-9]{1,2})?$`)
)

// isLabel is the rule of names that become a part of a namespace or a label.
func isLabel(s string) error {
	if len(s) > 63 || !dnsLabel.MatchString(s) {
		return fmt.Errorf(`%s is not a DNS label (RFC 1123): 1 to 63 of a-z, 0-9 and "-", with a letter or digit at both ends`, quote(s))
	}
	return nil
}

// isSubdomain is the rule of the names of most Kubernetes objects.
func isSubdomain(s string) error {
	if len(s) > 253 || !dnsSubdomain.MatchString(s) {
		return fmt.Errorf(`%s is not a DNS subdomain (RFC 1123): 1 to 253 of a-z, 0-9, "-" and ".", with a letter or digit at both ends of each part`, quote(s))
	}
	return nil
}

func isTag(s string) error {
	if !imageTag.MatchString(s) {
		return fmt.Errorf(`%s is not a tag of an image (OCI distribution): 1 to 128 of A-Z, a-z, 0-9, "_", "." and "-", not starting with "." or "-"`, quote(s))
	}
	return nil
}

func isDigest(s string) error {
	if !sha256Digest.MatchString(s) {
		return fmt.Errorf(`%s is not a digest: "sha256:" and 64 of 0-9 and a-f`, quote(s))
	}
	return nil
}

// isPath is the rule of file names. OpenTofu brings every string to Unicode
// normal form C, thus a name in another form would reach the oci provider as
// the name of another file.
func isPath(s string) error {
	switch {
	case s == "":
		return errors.New("is empty, must be the path of a file")
	case len(s) > 4096:
		return errors.New("is longer than 4096 bytes, no file can have this path")
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("%s holds a NUL character, no file can have this path", quote(s))
	case strings.ContainsRune(s, '\uFFFD') || cty.StringVal(s).AsString() != s:
		return fmt.Errorf("%s is not in Unicode normal form C; rename the file", quote(s))
	}
	return nil
}

// parseDuration reads hours, minutes and seconds, such as "1h30m".
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || !duration.MatchString(s) {
		return 0, fmt.Errorf(`%s is not a duration: hours, minutes and seconds such as "10m" or "1h30m"`, quote(s))
	}
	if d <= 0 || d > maxDuration {
		return 0, fmt.Errorf("%s is not between 1s and %s", quote(s), "24h")
	}
	return d, nil
}

// parseQuantity reads a Kubernetes quantity that is not negative.
func parseQuantity(s string) (*big.Rat, error) {
	bad := fmt.Errorf(`%s is not a Kubernetes quantity: a number with an optional suffix m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent`, quote(s))
	parts := quantity.FindStringSubmatch(s)
	if parts == nil {
		return nil, bad
	}
	number, ok := new(big.Rat).SetString(strings.TrimSuffix(parts[1], "."))
	if !ok {
		return nil, bad
	}
	unit := new(big.Rat)
	switch suffix := parts[2]; {
	case suffix == "":
		unit.SetInt64(1)
	case suffix == "m":
		unit.SetFrac64(1, 1000)
	case strings.HasSuffix(suffix, "i"):
		unit.SetInt(new(big.Int).Lsh(big.NewInt(1), 10*uint(strings.Index("KMGTPE", suffix[:1])+1)))
	case len(suffix) == 1:
		power := int64(3 * (strings.Index("kMGTPE", suffix) + 1))
		unit.SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(power), nil))
	default:
		power, err := strconv.ParseInt(suffix[1:], 10, 8)
		if err != nil {
			return nil, bad
		}
		unit.SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(power, -power)), nil))
		if power < 0 {
			unit.Inv(unit)
		}
	}
	number.Mul(number, unit)
	// Kubernetes silently caps what is larger.
	if number.Cmp(new(big.Rat).SetInt64(1<<63-1)) > 0 {
		return nil, fmt.Errorf("%s is more than Kubernetes can count (2^63-1)", quote(s))
	}
	return number, nil
}

func isQuantity(s string) error {
	_, err := parseQuantity(s)
	return err
}

// isVolumeSize is the rule of what a claim can ask for.
func isVolumeSize(s string) error {
	size, err := parseQuantity(s)
	if err != nil {
		return err
	}
	if size.Sign() == 0 || !size.IsInt() {
		return fmt.Errorf("%s is not the size of a volume: it must be whole bytes, and not 0", quote(s))
	}
	return nil
}
