// Package keepers has the rule by which the types of hashicorp/random and hashicorp/null decide whether a map of
// arbitrary values ("keepers", "triggers") replaces its resource.
package keepers

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
)

// RequiresReplace replaces the resource when the map gets another value. It ignores keys whose value is null: states that
// older releases wrote don't have them, and a resource must not be replaced because of who wrote its state.
func RequiresReplace() planmodifier.Map {
	const what = "Replaces the resource when a value changes that isn't null."
	return mapplanmodifier.RequiresReplaceIf(changed, what, what)
}

func changed(_ context.Context, req planmodifier.MapRequest, resp *mapplanmodifier.RequiresReplaceIfFuncResponse) {
	config, state := req.ConfigValue.Elements(), req.StateValue.Elements()
	for key, value := range config {
		old, ok := state[key]
		if ok && !value.Equal(old) || !ok && !value.IsNull() {
			resp.RequiresReplace = true
		}
	}
	for key := range state {
		if _, ok := config[key]; !ok {
			resp.RequiresReplace = true
		}
	}
}
