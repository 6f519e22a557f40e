package random

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// keepers is the attribute that all random types share: another value makes another result.
func keepers() schema.MapAttribute {
	const what = "Values that, when one changes, replace the resource, and so its result."
	return schema.MapAttribute{
		Optional: true, ElementType: types.StringType, MarkdownDescription: what,
		PlanModifiers: []planmodifier.Map{mapplanmodifier.RequiresReplaceIf(keepersChanged, what, what)},
	}
}

// keepersChanged decides as hashicorp/random does. It ignores keys whose value is null: states that older releases wrote
// don't have them, and a resource must not be replaced because of who wrote its state.
func keepersChanged(_ context.Context, req planmodifier.MapRequest, resp *mapplanmodifier.RequiresReplaceIfFuncResponse) {
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

// importedKeepers is what hashicorp/random puts into the state at an import: an empty map, not null. The next plan of a
// configuration without keepers shows that as an update in place.
func importedKeepers() types.Map {
	return types.MapValueMust(types.StringType, map[string]attr.Value{})
}
