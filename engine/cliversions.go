package engine

import (
	"fmt"
	"sort"

	"github.com/opentofu/opentofu/internal/configs"
	"github.com/opentofu/opentofu/internal/getproviders"
	"github.com/opentofu/opentofu/internal/tfdiags"
)

// checkVersions finds linked providers of which the configuration wants another
// version. Stock tofu would look for it in a registry.
func (l *linked) checkVersions(cfg *configs.Config) (diags tfdiags.Diagnostics) {
	reqs, _, hclDiags := cfg.ProviderRequirements()
	if hclDiags.HasErrors() {
		return diags.Append(hclDiags)
	}
	var wrong []string
	for a, constraints := range reqs {
		linked, ok := l.versions[a]
		if !ok || len(constraints) == 0 {
			continue
		}
		v, err := getproviders.ParseVersion(linked)
		if err != nil || !getproviders.MeetingConstraints(constraints).Has(v) {
			wrong = append(wrong, fmt.Sprintf("%s: %s is linked, not %s", a, linked, getproviders.VersionConstraintsString(constraints)))
		}
	}
	if len(wrong) == 0 {
		return diags
	}
	sort.Strings(wrong)
	return diags.Append(sourceless("Provider linked in another version",
		"The configuration wants versions of providers that this program doesn't have:%s\n\nProviders are linked into the program, none is downloaded. Change the version in required_providers.", bullets(wrong)))
}
