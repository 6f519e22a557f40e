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
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/opentofu/opentofu/internal/providers"
)

// Pool makes instances of providers and knows those that are in use.
type Pool struct {
	// Log, if set, prepares the context of a call for the provider's log lines.
	Log func(ctx context.Context, name string) context.Context

	mu   sync.Mutex
	live map[*provider]struct{}
}

// Factory returns a factory of instances of the provider, each on a server of
// its own. The schema is asked for once, whatever the number of instances. The
// name is for log lines.
func (pool *Pool) Factory(name string, newServer func() tfprotov6.ProviderServer) providers.Factory {
	s := &schemas{}
	return func() (_ providers.Interface, err error) {
		defer rescueError(&err, "starting the provider")
		server := newServer()
		if server == nil {
			return nil, errors.New("the provider has no server")
		}
		p := &provider{server: server, schemas: s, name: name, pool: pool}
		pool.mu.Lock()
		defer pool.mu.Unlock()
		if pool.live == nil {
			pool.live = map[*provider]struct{}{}
		}
		pool.live[p] = struct{}{}
		return p, nil
	}
}

// Stop asks all instances that are in use to end their running calls soon.
func (pool *Pool) Stop(ctx context.Context) error {
	pool.mu.Lock()
	live := slices.Collect(maps.Keys(pool.live))
	pool.mu.Unlock()
	var errs []error
	for _, p := range live {
		errs = append(errs, p.Stop(ctx))
	}
	return errors.Join(errs...)
}

// provider is one instance. Core calls its methods concurrently.
type provider struct {
	server  tfprotov6.ProviderServer
	schemas *schemas
	name    string
	pool    *Pool
}

var _ providers.Interface = (*provider)(nil)

func (p *provider) GetProviderSchema(ctx context.Context) providers.GetProviderSchemaResponse {
	return p.schemas.get(ctx, p.server).resp
}

func (p *provider) ValidateProviderConfig(ctx context.Context, q providers.ValidateProviderConfigRequest) (out providers.ValidateProviderConfigResponse) {
	c, ctx := p.begin(ctx, "ValidateProviderConfig", configObject, "", &out.Diagnostics)
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
	c, ctx := p.begin(ctx, "ConfigureProvider", configObject, "", &out.Diagnostics)
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

// Close ends the instance's use. It has nothing but memory.
func (p *provider) Close(context.Context) error {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	delete(p.pool.live, p)
	return nil
}
