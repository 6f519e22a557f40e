package direct

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// notDeferred refuses a deferral: core doesn't tell providers that it takes
// any, and would take what comes with one for the answer.
func (c *call) notDeferred(d *tfprotov6.Deferred) {
	if d != nil {
		c.fail(fmt.Errorf("%s of %s: the provider deferred (%s), which OpenTofu %s", c.method, c.typeName, d.Reason, "doesn't support; this is a bug in the provider"))
	}
}

func errNoIdentity(typeName string) error {
	return fmt.Errorf("resource type %q has no identity that the provider could be asked for", typeName)
}
