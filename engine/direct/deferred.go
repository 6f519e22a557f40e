package direct

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// notDeferred refuses a deferral: core doesn't tell providers that it takes
// any, and would take what comes with one for the answer.
func (c *call) notDeferred(d *tfprotov6.Deferred) {
	if d != nil {
		c.fail(fmt.Errorf("%s of %s was deferred (%s) though OpenTofu doesn't ask for that; this is a bug in the provider", c.method, c.typeName, d.Reason))
	}
}
