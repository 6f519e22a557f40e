package rollout

import (
	"fmt"
	"strings"

	"fediversity.eu/yuba/providers/internal/text"
	"fediversity.eu/yuba/providers/kubernetes/internal/field"
)

// maxText bounds what of a foreign message is shown, in bytes.
const maxText = 600

// lastWarning gives the newest warning about an object, "" when there is none.
// Kubelet and controllers repeat events; only the newest says what is so.
func lastWarning(events []Object, uid string) (reason, message string) {
	newest, _ := newestWarning(events, uid)
	return field.String(newest, "reason"), clean(field.String(newest, "message"))
}

// newestWarning gives the event itself, and its time. Of two of one moment it is
// always the same one, in whatever order they come: the verdict must not flap.
func newestWarning(events []Object, uid string) (newest Object, at string) {
	for _, e := range events {
		if field.String(e, "type") != "Warning" || About(e) != uid {
			continue
		}
		t := eventTime(e)
		if newest == nil || t > at || t == at && field.String(e, "metadata", "name") > field.String(newest, "metadata", "name") {
			newest, at = e, t
		}
	}
	return newest, at
}

// eventTime is RFC 3339, so that it sorts as text. Old events have
// lastTimestamp, new ones eventTime and a series.
func eventTime(e Object) string {
	t := field.String(e, "metadata", "creationTimestamp")
	for _, c := range []string{field.String(e, "lastTimestamp"), field.String(e, "eventTime"), field.String(e, "series", "lastObservedTime")} {
		t = max(t, c)
	}
	return t
}

// eventLine is a warning as a line of a verdict's detail.
func eventLine(events []Object, uid, what string) []string {
	reason, message := lastWarning(events, uid)
	if message == "" {
		return nil
	}
	return []string{fmt.Sprintf("last event of %s: %s: %s", what, reason, message)}
}

// clean makes a foreign message one line of plain text.
func clean(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return strings.Join(strings.FieldsFunc(text.Plain(s), func(r rune) bool { return r == '\n' }), " ")
}
