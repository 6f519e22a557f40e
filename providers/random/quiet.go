package random

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"fediversity.eu/yuba/providers/internal/quiet"
)

// quietServer answers for UUIDs that stay, of which a group has one for each
// node, without the framework. The other types have defaults and old states.
type quietServer struct{ tfprotov6.ProviderServer }

const quietType = "random_uuid"

// uuidAttributes are those of random_uuid. A test holds them against the schema.
var uuidAttributes = []string{"id", "keepers", "result"}

func (s quietServer) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	if req.TypeName == quietType && quiet.Exists(req.Config) {
		return &tfprotov6.ValidateResourceConfigResponse{}, nil // there is nothing to get wrong
	}
	return s.ProviderServer.ValidateResourceConfig(ctx, req)
}

func (s quietServer) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	if req.TypeName == quietType && req.Version == 0 {
		if resp := quiet.Upgraded(req.RawState, uuidAttributes); resp != nil {
			return resp, nil
		}
	}
	return s.ProviderServer.UpgradeResourceState(ctx, req)
}

func (s quietServer) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	if req.TypeName == quietType && quiet.Exists(req.CurrentState) {
		return &tfprotov6.ReadResourceResponse{NewState: req.CurrentState, Private: req.Private}, nil
	}
	return s.ProviderServer.ReadResource(ctx, req)
}

func (s quietServer) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	if req.TypeName == quietType && quiet.Unchanged(req.PriorState, req.ProposedNewState) {
		return &tfprotov6.PlanResourceChangeResponse{PlannedState: req.PriorState, PlannedPrivate: req.PriorPrivate}, nil
	}
	return s.ProviderServer.PlanResourceChange(ctx, req)
}
