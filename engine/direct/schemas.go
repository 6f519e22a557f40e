package direct

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/providers"
	"github.com/zclconf/go-cty/cty"
)

// objectKind is what a schema describes.
type objectKind string

const (
	configObject    objectKind = "provider configuration"
	resourceObject  objectKind = "resource type"
	dataObject      objectKind = "data source"
	ephemeralObject objectKind = "ephemeral resource type"
)

// object is a schema with what is derived from it on each call.
type object struct {
	schema    providers.Schema
	ty        cty.Type
	identity  cty.Type // NilType if it has none
	writeOnly bool
}

func newObject(s providers.Schema) *object {
	o := &object{schema: s, ty: s.Block.ImpliedType(), identity: cty.NilType, writeOnly: s.Block.ContainsWriteOnly()}
	if s.IdentitySchema != nil {
		o.identity = s.IdentitySchema.ImpliedType()
	}
	return o
}

// schemas are those of one provider, shared by all its instances.
type schemas struct {
	once sync.Once
	known
}

type known struct {
	resp    providers.GetProviderSchemaResponse
	objects map[objectKind]map[string]*object
	meta    *object
}

// get asks the first server that comes along.
func (s *schemas) get(ctx context.Context, server tfprotov6.ProviderServer) *known {
	s.once.Do(func() { s.known = load(context.WithoutCancel(ctx), server) })
	return &s.known
}

func load(ctx context.Context, server tfprotov6.ProviderServer) (k known) {
	c := &call{method: "GetProviderSchema", diags: &k.resp.Diagnostics}
	defer c.rescue()
	r, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if !c.answered(err, r != nil) {
		return k
	}
	if c.report(r.Diagnostics); c.failed() {
		return k
	}
	if r.Provider == nil {
		c.fail(errors.New("the provider has no schema of its configuration"))
		return k
	}
	var conv converter
	out := &k.resp
	// Provider configurations and ephemeral resources may hold ephemeral values.
	out.Provider = conv.schema(r.Provider, true)
	if r.ProviderMeta != nil {
		out.ProviderMeta = conv.schema(r.ProviderMeta, false)
		k.meta = newObject(out.ProviderMeta)
	}
	out.ResourceTypes = conv.schemas(r.ResourceSchemas, false)
	out.DataSources = conv.schemas(r.DataSourceSchemas, false)
	out.EphemeralResources = conv.schemas(r.EphemeralResourceSchemas, true)
	out.Functions = conv.functions(r.Functions)
	if caps := r.ServerCapabilities; caps != nil {
		out.ServerCapabilities.PlanDestroy = caps.PlanDestroy
		out.ServerCapabilities.GetProviderSchemaOptional = caps.GetProviderSchemaOptional
	}
	for name, id := range identities(ctx, server) {
		if s, ok := out.ResourceTypes[name]; ok && id != nil {
			s.IdentitySchemaVersion, s.IdentitySchema = id.Version, conv.identity(id)
			out.ResourceTypes[name] = s
		}
	}
	if conv.err != nil {
		c.fail(fmt.Errorf("the provider's schema: %w", conv.err))
		return k
	}
	k.objects = map[objectKind]map[string]*object{
		configObject:    {"": newObject(out.Provider)},
		resourceObject:  newObjects(out.ResourceTypes),
		dataObject:      newObjects(out.DataSources),
		ephemeralObject: newObjects(out.EphemeralResources),
	}
	return k
}

// identities are an extra: a provider whose identity schemas fail works
// without, as over the wire.
func identities(ctx context.Context, server tfprotov6.ProviderServer) map[string]*tfprotov6.ResourceIdentitySchema {
	r, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil || r == nil || diagnostics(r.Diagnostics).HasErrors() {
		return nil
	}
	return r.IdentitySchemas
}

func newObjects(in map[string]providers.Schema) map[string]*object {
	out := make(map[string]*object, len(in))
	for name, s := range in {
		out[name] = newObject(s)
	}
	return out
}
