package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// pulled is what a node knows of an image that it has.
type pulled struct {
	id     string // REPOSITORY@DIGEST
	labels map[string]string
}

// pullError is why a node has not got an image: the reason of the waiting
// container, and the runtime's words.
type pullError struct{ reason, message string }

// pull looks an image up in its registry. Only registries on loopback are
// asked; every other host is one that doesn't exist.
func pull(ctx context.Context, image string) (*pulled, *pullError) {
	ref, err := name.ParseReference(image, name.WithDefaultRegistry("docker.io"))
	if err != nil {
		return nil, &pullError{"InvalidImageName", fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %[1]q: invalid reference format", image)}
	}
	host := ref.Context().RegistryStr()
	h, _, err := net.SplitHostPort(host)
	if err != nil {
		h = host
	}
	head := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %[1]q: ", ref.Name())
	if ip := net.ParseIP(h); h != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, failedPull("Unknown", head+fmt.Sprintf("failed to do request: Head %q: dial tcp: lookup %s: no such host",
			"https://"+host+"/v2/"+ref.Context().RepositoryStr()+"/manifests/"+ref.Identifier(), h))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithRetryPredicate(func(error) bool { return false }))
	if err != nil {
		return nil, failure(ref, head, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, failure(ref, head, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, failure(ref, head, err)
	}
	return &pulled{id: ref.Context().Name() + "@" + digest.String(), labels: config.Config.Labels}, nil
}

// failure puts a registry's error in containerd's words.
func failure(ref name.Reference, head string, err error) *pullError {
	var answer *transport.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return failedPull("NotFound", head+ref.Name()+": not found")
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return failedPull("Unknown", head+"pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials")
	case errors.As(err, &answer):
		return failedPull("Unknown", head+fmt.Sprintf("unexpected status from HEAD request to %s://%s/v2/%s/manifests/%s: %d %s", ref.Context().Scheme(),
			ref.Context().RegistryStr(), ref.Context().RepositoryStr(), ref.Identifier(), answer.StatusCode, http.StatusText(answer.StatusCode)))
	case errors.As(err, &dial):
		return failedPull("Unknown", head+fmt.Sprintf("failed to do request: Head %q: %v", fmt.Sprintf("%s://%s/v2/%s/manifests/%s", ref.Context().Scheme(),
			ref.Context().RegistryStr(), ref.Context().RepositoryStr(), ref.Identifier()), dial))
	}
	return failedPull("Unknown", head+strings.TrimSpace(err.Error()))
}

func failedPull(code, message string) *pullError {
	return &pullError{"ErrImagePull", "rpc error: code = " + code + " desc = " + message}
}
