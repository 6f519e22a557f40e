package state

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// LockInfo is who holds a lock, as OpenTofu writes it.
type LockInfo struct {
	// ID names the lock; whoever holds it sends it with each write.
	ID string
	// Operation, Info and Who are free text.
	Operation, Info, Who string
	// Version is the holder's, Path the state's where there is one.
	Version string
	// Created is when the lock was taken, zero if the server does not say.
	Created time.Time
	Path    string
}

// maxLockField bounds each text of a holder's LockInfo, in bytes.
const maxLockField = 1 << 10

func (i LockInfo) json() []byte {
	b, _ := json.Marshal(i) // strings and a time that ParseLockInfo made: cannot fail
	return b
}

// ParseLockInfo reads a server's description of a lock: OpenTofu's JSON
// whatever its spelling of the time, or a bare lock ID as nimbolus
// terraform-backend sends it. Texts are cleaned of control characters and
// bounded. It reports false when the body names no lock.
func ParseLockInfo(body []byte) (LockInfo, bool) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || len(body) > maxErrorBody {
		return LockInfo{}, false
	}
	if body[0] != '{' {
		id := string(bytes.Trim(body, `"`))
		if len(id) < 8 || len(id) > 128 || !bareID(id) {
			return LockInfo{}, false
		}
		return LockInfo{ID: id}, true
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return LockInfo{}, false
	}
	text := func(name string) string {
		for _, spelling := range []string{name, strings.ToLower(name)} {
			var s string
			if json.Unmarshal(fields[spelling], &s) == nil && s != "" {
				return cleanText(s, maxLockField)
			}
		}
		return ""
	}
	info := LockInfo{
		ID: text("ID"), Operation: text("Operation"), Info: text("Info"),
		Who: text("Who"), Version: text("Version"), Path: text("Path"),
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05.999999999 -0700 MST"} {
		t, err := time.Parse(layout, text("Created"))
		if err == nil && t.Year() > 1 && t.Year() < 10000 {
			info.Created = t.UTC()
			break
		}
	}
	return info, info.ID != ""
}

// bareID tells a lock's ID from a word of prose: it has a digit or a dash and
// nothing that a sentence or a page has.
func bareID(s string) bool {
	marks := 0
	for _, r := range s {
		switch {
		case r == '-' || r >= '0' && r <= '9':
			marks++
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_':
		default:
			return false
		}
	}
	return marks >= 4
}

// cleanText makes outside text fit for one line of a terminal.
func cleanText(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = s[:limit]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "..."
	}
	return s
}
