// Command vault is a small real server with the transit secrets engine, for the
// tests of state encryption: HashiCorp Vault 1.13's core, HTTP API and transit
// engine. OpenBao's own server is not to be had as a Go module; it was forked
// from Vault 1.14, and what state encryption asks of its transit engine
// (datakey, decrypt) is the same in both.
//
// It keeps all in memory, is unsealed from the start, and listens on a free
// port of 127.0.0.1. Its first line on the standard output is JSON with its
// address and root token. It ends when its standard input does.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/builtin/logical/transit"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vault:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := context.Background()
	logger := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Warn})
	storage, err := inmem.NewInmem(nil, logger)
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical: storage, Logger: logger, DisableMlock: true, DisableSSCTokens: true,
		LogicalBackends: map[string]logical.Factory{"transit": transit.Factory, "kv": vault.LeasedPassthroughBackendFactory},
		BuiltinRegistry: builtins{},
	})
	if err != nil {
		return err
	}
	seal := &vault.SealConfig{SecretShares: 1, SecretThreshold: 1, StoredShares: 1}
	made, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: seal, RecoveryConfig: seal})
	if err != nil {
		return fmt.Errorf("initialising: %w", err)
	}
	for _, share := range made.SecretShares {
		if _, err := core.Unseal(share); err != nil {
			return fmt.Errorf("unsealing: %w", err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core, ListenerConfig: &configutil.Listener{}}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	err = json.NewEncoder(os.Stdout).Encode(map[string]string{"address": "http://" + listener.Addr().String(), "token": made.RootToken})
	if err != nil {
		return err
	}
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// builtins are the plugins that the server knows by name: none but those that it
// was given.
type builtins struct{}

func (builtins) Contains(name string, kind consts.PluginType) bool {
	return kind == consts.PluginTypeSecrets && name == "transit"
}

func (b builtins) Get(name string, kind consts.PluginType) (func() (any, error), bool) {
	return func() (any, error) { return logical.Factory(transit.Factory), nil }, b.Contains(name, kind)
}

func (builtins) Keys(kind consts.PluginType) []string {
	if kind == consts.PluginTypeSecrets {
		return []string{"transit"}
	}
	return nil
}

func (b builtins) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, b.Contains(name, kind)
}

func (builtins) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }
