package random

import (
	"context"
	"hash/crc64"
	mathrand "math/rand"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
)

// stored is what all random types have in common: the state is the truth, and nothing else knows of the value.
type stored struct{}

// Read has nothing to ask.
func (stored) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update happens when only null values of keepers come or go.
func (stored) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete has nothing to remove.
func (stored) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// result is a computed string that stays.
func result(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}}
}

// source is the one that hashicorp/random has for the seed.
func source(seed string) mathrand.Source {
	return mathrand.NewSource(int64(crc64.Checksum([]byte(seed), crc64.MakeTable(crc64.ISO))))
}
