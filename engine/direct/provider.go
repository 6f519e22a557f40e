// Package direct lets OpenTofu's core call a provider in its own process.
//
// It adapts a tfprotov6.ProviderServer, which is what terraform-plugin-framework
// makes, to core's providers.Interface by plain method calls: no gRPC, no
// protobuf, no process. It is as strict as the wire would be: every value goes
// through the encoding that the plugin protocol uses, with the schema's type, so
// nothing but what the protocol allows gets across, and neither side keeps a
// reference into the other's memory.
//
// Where it differs from a plugin process: a panic of the provider becomes an
// error of the one object that the call was about. Core would end the process
// at a panic, with the state locked and what was done so far unsaved.
package direct

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/providers"
)

// Factory returns a factory of instances of the provider, each on a server of
// its own. The schema is asked for once, whatever the number of instances.
func Factory(newServer func() tfprotov6.ProviderServer) providers.Factory {
	s := &schemas{}
	return func() (p providers.Interface, err error) {
		defer rescueError(&err, "starting the provider")
		server := newServer()
		if server == nil {
			return nil, errors.New("the provider has no server")
		}
		return &provider{server: server, schemas: s}, nil
	}
}

// provider is one instance. Core calls its methods concurrently.
type provider struct {
	server  tfprotov6.ProviderServer
	schemas *schemas
}

var _ providers.Interface = (*provider)(nil)

func (p *provider) GetProviderSchema(ctx context.Context) providers.GetProviderSchemaResponse {
	return p.schemas.get(ctx, p.server).resp
}

func (p *provider) ValidateProviderConfig(ctx context.Context, q providers.ValidateProviderConfigRequest) (out providers.ValidateProviderConfigResponse) {
	c := p.begin(ctx, "ValidateProviderConfig", configObject, "", &out.Diagnostics)
	defer c.rescue()
	config := c.encode(q.Config)
	if c.failed() {
		return out
	}
	r, err := p.server.ValidateProviderConfig(ctx, &tfprotov6.ValidateProviderConfigRequest{Config: config})
	if c.answered(err, r != nil) {
		c.report(r.Diagnostics)
	}
	return out
}

func (p *provider) ConfigureProvider(ctx context.Context, q providers.ConfigureProviderRequest) (out providers.ConfigureProviderResponse) {
	c := p.begin(ctx, "ConfigureProvider", configObject, "", &out.Diagnostics)
	defer c.rescue()
	config := c.encode(q.Config)
	if c.failed() {
		return out
	}
	r, err := p.server.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{
		TerraformVersion:   q.TerraformVersion,
		Config:             config,
		ClientCapabilities: &tfprotov6.ConfigureProviderClientCapabilities{},
	})
	if c.answered(err, r != nil) {
		c.report(r.Diagnostics)
	}
	return out
}

// Stop asks the provider to end its running calls soon. They still return.
func (p *provider) Stop(ctx context.Context) (err error) {
	defer rescueError(&err, "stopping the provider")
	r, err := p.server.StopProvider(ctx, &tfprotov6.StopProviderRequest{})
	if err == nil && r != nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return err
}

// Close does nothing: an instance has nothing but memory.
func (p *provider) Close(context.Context) error { return nil }
