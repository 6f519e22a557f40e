package k8s

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// CheckSubmission refuses a submission other than the one that the group file
// was evaluated with. data is the whole submission file. Without this check, an
// apply could turn nodes off (and remove their data) by a submission that the
// group file never saw.
func (g *Group) CheckSubmission(data []byte) error {
	sum := sha256.Sum256(data)
	got := "sha256:" + hex.EncodeToString(sum[:])
	switch {
	case g.Submission == "":
		return fmt.Errorf("%s: submission: a submission is given, but the group file was evaluated without one; evaluate the group with this submission, or leave it out", g.File)
	case g.Submission != got:
		return fmt.Errorf("%s: submission: the given submission is %s, but the group file was evaluated with %s; evaluate the group again with the given submission", g.File, got, g.Submission)
	}
	return nil
}
