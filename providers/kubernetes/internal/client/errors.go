package client

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conflict is a field that another field manager owns.
type Conflict struct {
	Manager string // its name
	Applied bool   // the manager applies too (server-side), it is no controller or editor
	Field   string // such as .spec.template.spec.containers[name="web"].image
}

var managerName = regexp.MustCompile(`^conflict with "((?:[^"\\]|\\.)*)"(.*)$`)

// Conflicts reads the conflicts out of the error of an apply, nil when it is
// another error.
func Conflicts(err error) []Conflict {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return nil
	}
	var out []Conflict
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		c := Conflict{Field: cause.Field, Manager: cause.Message}
		if m := managerName.FindStringSubmatch(cause.Message); m != nil {
			c.Manager = m[1]
			// Only for writers that don't apply the server adds the time
			// and version of the write: `conflict with "x" using apps/v1`.
			c.Applied = !strings.Contains(m[2], " using ")
		}
		out = append(out, c)
	}
	return out
}

// ImmutableFields gives the fields that the server refuses to change in an
// existing object, nil when err is another error.
func ImmutableFields(err error) []string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Reason != metav1.StatusReasonInvalid || status.ErrStatus.Details == nil {
		return nil
	}
	var out []string
	for _, cause := range status.ErrStatus.Details.Causes {
		if !immutable(cause.Message) || cause.Field == uidField {
			return nil // replacing would not heal this one
		}
		if !slices.Contains(out, cause.Field) {
			out = append(out, cause.Field)
		}
	}
	return out
}

// uidField is immutable, too, but nobody wants to change it: who sends the uid of
// one object means no other.
const uidField = "metadata.uid"

// AnotherObject says whether an apply to the object of a uid was refused because
// that object isn't there: there is none of its name, or another one.
func AnotherObject(err error) bool {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return false
	}
	if status.ErrStatus.Reason == metav1.StatusReasonConflict {
		return strings.Contains(status.ErrStatus.Message, "uid mismatch")
	}
	return status.ErrStatus.Reason == metav1.StatusReasonInvalid && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == uidField })
}

// immutable knows the sentences with which the API server's validations
// (k8s.io/kubernetes/pkg/apis/*/validation) refuse a change for good.
func immutable(message string) bool {
	for _, s := range []string{
		"field is immutable",
		"is immutable after creation",
		"updates to statefulset spec for fields other than",
		"may not change once set",
		"cannot change roleRef",
		"Value is immutable", // what CRD authors write in x-kubernetes-validations
	} {
		if strings.Contains(message, s) {
			return true
		}
	}
	return false
}

// NamespaceTerminating says whether err refuses a create because the namespace
// is being deleted.
func NamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// looksUp are the words of the API server's own admission plugins (ServiceAccount,
// RuntimeClass, Priority) for another object that a pod needs. A webhook or policy
// can't forge them: its words come after its name.
var looksUp = regexp.MustCompile(`^pods "[^"]*" is forbidden: (error looking up service account \S+: serviceaccount "[^"]*" not found|` +
	`pod rejected: RuntimeClass "[^"]*" not found|no PriorityClass with name \S+ was found)$`)

// NoAnswer says whether a refused dry run tells nothing about an apply later on:
// what it misses may be made before, or nobody may be asked.
func NoAnswer(err error) bool {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		return false
	}
	s := status.ErrStatus
	switch s.Reason {
	case metav1.StatusReasonNotFound:
		return true // the namespace, or the kind
	case metav1.StatusReasonForbidden:
		return looksUp.MatchString(s.Message)
	case metav1.StatusReasonBadRequest:
		// apierrors of k8s.io/apiserver/pkg/admission/plugin/webhook/errors.
		return strings.HasPrefix(s.Message, "admission webhook ") && strings.HasSuffix(s.Message, " does not support dry run")
	}
	return false
}
