package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Access is a request that one may or may not make. Its JSON is that of
// ResourceAttributes in the API group authorization.k8s.io.
type Access struct {
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"` // "" is for all, and for what is in none
}

// Review is the answer to whether one may make a request.
type Review struct {
	Allowed bool
	Reason  string // the authorizer's, may be ""
	// Failure is why the authorizer could not judge, "" when it could: that it is
	// not allowed then may be wrong.
	Failure string
}

// Review asks the API server whether this client's user may make a request.
func (c *Client) Review(ctx context.Context, a Access) (Review, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": a},
	})
	if err != nil {
		return Review{}, err
	}
	// A review is not stored, so that sending it again changes nothing.
	answer, _, err := c.object(ctx, request{method: http.MethodPost, contentType: "application/json",
		path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body: body})
	if err != nil {
		return Review{}, fmt.Errorf("asking whether one may %s %s: %w", a.Verb, a.Resource, err)
	}
	var r Review
	status, _ := answer["status"].(Object)
	r.Allowed, _ = status["allowed"].(bool)
	r.Reason, _ = status["reason"].(string)
	r.Failure, _ = status["evaluationError"].(string)
	return r, nil
}

// Version is the API server's, such as "v1.37.2".
func (c *Client) Version(ctx context.Context) (string, error) {
	info, _, err := c.object(ctx, request{method: http.MethodGet, path: "/version"})
	if err != nil {
		return "", fmt.Errorf("asking for the version: %w", err)
	}
	v, _ := info["gitVersion"].(string)
	return v, nil
}
