package random

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	rule "fediversity.eu/yuba/providers/internal/keepers"
)

// keepers is the attribute that all random types share: another value makes another result.
func keepers() schema.MapAttribute {
	return schema.MapAttribute{
		Optional: true, ElementType: types.StringType,
		MarkdownDescription: "Values that, when one changes, replace the resource, and so its result.",
		PlanModifiers:       []planmodifier.Map{rule.RequiresReplace()},
	}
}

// noKeepers is what an import puts into the state.
func noKeepers() types.Map { return types.MapNull(types.StringType) }
