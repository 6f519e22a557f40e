// Package node says what the spire node is: its machine id and the trust
// bundle of its SPIRE server.
package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"fediversity.eu/yuba/spire/handoff"
	"fediversity.eu/yuba/spire/server"
)

// limit is how long the server may take to answer.
const limit = 30 * time.Second

// Describe is what handoff.Server tells of this machine. Its id is read from a file
// in the form of machine-id(5).
func Describe(ctx context.Context, socket, machineIDFile string) (handoff.Server, error) {
	id, err := machineID(machineIDFile)
	if err != nil {
		return handoff.Server{}, err
	}
	s, err := server.New(socket)
	if err != nil {
		return handoff.Server{}, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	trustDomain, bundle, err := s.Bundle(ctx)
	if err != nil {
		return handoff.Server{}, err
	}
	return handoff.Server{MachineID: id, TrustDomain: trustDomain, Bundle: bundle}, nil
}

// Is fails unless this is the machine of that id: a hand-off for a spire node that
// was set up anew since belongs to a new plan.
func Is(id, machineIDFile string) error {
	own, err := machineID(machineIDFile)
	switch {
	case err != nil:
		return err
	case own != id:
		return fmt.Errorf("this is machine %s and the hand-off is for machine %s: the spire node was made again since the plan, so plan again", own, id)
	}
	return nil
}

func machineID(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the machine id: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return "", fmt.Errorf("the machine id: %w", err)
	}
	id := strings.TrimSuffix(string(text), "\n")
	if err := handoff.IsMachineID(id); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return id, nil
}
