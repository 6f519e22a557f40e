// Package client speaks to a Kubernetes API server in objects without types.
//
// It holds what the provider needs and no more: server-side apply, reads that
// are batched by kind and namespace, delete with preconditions, watches, and
// discovery of single API groups. The typed clientset of client-go is left out
// on purpose: it costs the binary 20 MB and its start 40 ms.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"fediversity.eu/yuba/internal/trust"
)

const (
	// requestTimeout bounds one try of a request that is no watch. The API
	// server itself gives up after 60 s.
	requestTimeout = 70 * time.Second
	// maxBody bounds an answer, in bytes: a page of a list of 250 objects at
	// etcd's limit of 1.5 MB each would be larger, and is refused.
	maxBody = 256 << 20
	// pageSize is the number of objects asked for in one page of a list.
	pageSize = 250
	// maxList bounds all pages of a list, in bytes, and maxPages their number: a
	// million objects.
	maxList  = 1 << 30
	maxPages = 4000
	// maxRestarts is how often a list is begun again because the snapshot behind
	// its pages has expired.
	maxRestarts = 5
	// tries is how often a request is sent at most.
	tries = 6
	// maxRetryAfter bounds how long a server can make us wait by Retry-After.
	maxRetryAfter = 30 * time.Second
)

// Object is a Kubernetes object as decoded JSON: maps, slices, strings,
// booleans, int64, float64 and nil.
type Object = map[string]any

// Client is a connection to one API server. It is safe for concurrent use and
// needs no closing: connections are shared by the process and end when idle.
type Client struct {
	http         *http.Client
	http1        func() (*http.Client, error) // the same without HTTP/2, for upgrades
	base         *url.URL
	fieldManager string
	groups       memo[schema.GroupVersion, map[string]Kind]
	lists        memo[listKey, map[string]Object]
	gets         memo[listKey, Object]
	clock        atomic.Pointer[clock]
}

// clock is what a server's answer said of the time, and when that was here.
type clock struct{ server, here time.Time }

// Now is the time by the API server's clock, as its last answer tells: its
// times are compared with that, whatever the clock here says. Without an answer
// it is the time here.
func (c *Client) Now() time.Time {
	if k := c.clock.Load(); k != nil {
		return k.server.Add(time.Since(k.here))
	}
	return time.Now()
}

// New makes a client of a configuration that kubeconfig.Load gave. userAgent is what
// the API server's audit log shows; fieldManager owns what Apply writes.
func New(cfg *rest.Config, userAgent, fieldManager string) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = userAgent
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("server address in the kubeconfig: %w", err)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	hc, err := httpClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", redact(base), err)
	}
	http1 := sync.OnceValues(func() (*http.Client, error) {
		cfg := rest.CopyConfig(cfg)
		cfg.NextProtos = []string{"http/1.1"}
		return httpClient(cfg)
	})
	return &Client{http: hc, http1: http1, base: base, fieldManager: fieldManager}, nil
}

func httpClient(cfg *rest.Config) (*http.Client, error) {
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	// An API server never redirects; whoever does must not get our credentials.
	own := *hc
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own, nil
}

// Server is the address of the API server, fit for messages.
func (c *Client) Server() string { return redact(c.base) }

// FieldManager is the manager that owns what Apply writes.
func (c *Client) FieldManager() string { return c.fieldManager }

// ApplyOptions say how a manifest is applied.
type ApplyOptions struct {
	Force  bool // take fields from other managers
	DryRun bool // let the server answer as if, and store nothing
}

// Apply sends obj by server-side apply and gives the object as the server holds
// it then, with the warnings that the server has for the user.
func (c *Client) Apply(ctx context.Context, k Kind, namespace, name string, obj Object, o ApplyOptions) (Object, []string, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding %s %s: %w", k.Kind, name, err)
	}
	q := url.Values{"fieldManager": {c.fieldManager}, "fieldValidation": {"Strict"}}
	if o.Force {
		q.Set("force", "true")
	}
	if o.DryRun {
		q.Set("dryRun", "All")
	}
	if !o.DryRun {
		defer c.forget(k, namespace, name)
	}
	return c.one(ctx, k, name, request{method: http.MethodPatch, path: k.path(namespace, name), query: q, body: body, contentType: "application/apply-patch+yaml"})
}

// Get reads one object from the API server, past every cache.
func (c *Client) Get(ctx context.Context, k Kind, namespace, name string) (Object, error) {
	obj, _, err := c.one(ctx, k, name, request{method: http.MethodGet, path: k.path(namespace, name)})
	return obj, err
}

// MergePatch changes one object by a JSON merge patch.
func (c *Client) MergePatch(ctx context.Context, k Kind, namespace, name string, patch Object) (Object, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	defer c.forget(k, namespace, name)
	q := url.Values{"fieldManager": {c.fieldManager}}
	obj, _, err := c.one(ctx, k, name, request{method: http.MethodPatch, path: k.path(namespace, name), query: q, body: body, contentType: "application/merge-patch+json"})
	return obj, err
}

// Delete asks for the deletion of the object, if its uid is the given one (any
// when empty). gone is true when the object no longer exists on return; else it
// has a deletionTimestamp and the caller may wait for its end. propagation is a
// metav1.DeletionPropagation, the server's default when empty.
func (c *Client) Delete(ctx context.Context, k Kind, namespace, name, uid string, propagation metav1.DeletionPropagation) (gone bool, err error) {
	opts := Object{"kind": "DeleteOptions", "apiVersion": "v1"}
	if uid != "" {
		opts["preconditions"] = Object{"uid": uid}
	}
	if propagation != "" {
		opts["propagationPolicy"] = string(propagation)
	}
	body, err := json.Marshal(opts)
	if err != nil {
		return false, err
	}
	defer c.forget(k, namespace, name)
	r := request{method: http.MethodDelete, path: k.path(namespace, name), body: body, contentType: "application/json"}
	obj, _, err := c.object(ctx, r)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// Objects that end at once are answered with a Status, the others with
	// themselves.
	if obj["kind"] != "Status" && obj["kind"] != k.Kind {
		return false, c.strange(r, "neither a Status nor a "+k.Kind)
	}
	return obj["kind"] == "Status", nil
}

// ListOptions narrow a list.
type ListOptions struct {
	LabelSelector string
	FieldSelector string
}

// List reads all objects of a kind in a namespace, page by page, past every
// cache, and gives the resource version that a watch can go on from.
func (c *Client) List(ctx context.Context, k Kind, namespace string, o ListOptions) (items []Object, resourceVersion string, err error) {
	token, restarts, size := "", 0, 0
	for pages := 1; ; pages++ {
		q := url.Values{"limit": {strconv.Itoa(pageSize)}}
		setIf(q, "labelSelector", o.LabelSelector)
		setIf(q, "fieldSelector", o.FieldSelector)
		setIf(q, "continue", token)
		r := request{method: http.MethodGet, path: k.path(namespace, ""), query: q}
		body, _, err := c.send(ctx, r)
		if apierrors.IsResourceExpired(err) && token != "" {
			// The snapshot behind the token is gone: begin again.
			if restarts++; restarts > maxRestarts {
				return nil, "", fmt.Errorf("list of %s from %s: its pages expired %d times before the last one was there: %v", k.Resource, c.Server(), restarts, err)
			}
			items, token, size, pages = nil, "", 0, 0
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if size += len(body); size > maxList || pages > maxPages {
			return nil, "", fmt.Errorf("list of %s from %s: it is larger than %d pages and %d bytes", k.Resource, c.Server(), maxPages, maxList)
		}
		page, err := c.decode(r, body)
		if err != nil {
			return nil, "", err
		}
		list, ok := page["items"]
		raw, isList := list.([]any)
		kind, _ := page["kind"].(string)
		if !ok || !isList && list != nil || page["apiVersion"] != k.APIVersion() || kind == "" {
			return nil, "", c.strange(r, "no list of "+k.Resource)
		}
		for _, it := range raw {
			obj, ok := it.(Object)
			if !ok {
				return nil, "", c.strange(r, "no list of objects")
			}
			// The items of a list carry neither.
			obj["apiVersion"], obj["kind"] = k.APIVersion(), k.Kind
			items = append(items, obj)
		}
		meta, _ := page["metadata"].(Object)
		resourceVersion, _ = meta["resourceVersion"].(string)
		token, _ = meta["continue"].(string)
		if token == "" {
			return items, resourceVersion, nil
		}
	}
}

func setIf(q url.Values, key, value string) {
	if value != "" {
		q.Set(key, value)
	}
}

// Kind finds how the server serves a kind. Kinds of Kubernetes itself are known;
// for others the API group is asked once in the life of c. A kind that is not
// served is a *NotServedError, which is not remembered: its definition may be
// applied a moment later.
func (c *Client) Kind(ctx context.Context, gvk schema.GroupVersionKind) (Kind, error) {
	if k, ok := builtin(gvk); ok {
		return k, nil
	}
	missing := &NotServedError{GVK: gvk, Server: c.Server()}
	var kinds map[string]Kind
	var err error
	for try := 0; ; try++ {
		kinds, err = c.groups.do(ctx, gvk.GroupVersion(), func() (map[string]Kind, error) {
			kinds, err := c.discover(ctx, gvk.GroupVersion())
			if err == nil {
				if _, ok := kinds[gvk.Kind]; !ok {
					return nil, missing
				}
			}
			return kinds, err
		})
		var none *NoPathError
		if !errors.As(err, &none) && !apierrors.IsNotFound(err) {
			break
		}
		// That may be a proxy's word: not served is what the API server doesn't list.
		listed, lerr := c.serves(ctx, gvk.GroupVersion())
		switch {
		case lerr != nil:
			return Kind{}, lerr
		case !listed:
			return Kind{}, missing
		case try == indexTries:
			return Kind{}, err
		}
		// The index follows definitions that come and go a moment later.
		select {
		case <-ctx.Done():
			return Kind{}, err
		case <-time.After(500 * time.Millisecond):
		}
	}
	if err != nil {
		return Kind{}, err
	}
	if k, ok := kinds[gvk.Kind]; ok {
		return k, nil
	}
	// The answer is from before this kind was defined.
	c.groups.forget(gvk.GroupVersion())
	if kinds, err = c.discover(ctx, gvk.GroupVersion()); err != nil {
		return Kind{}, err
	}
	if k, ok := kinds[gvk.Kind]; ok {
		return k, nil
	}
	return Kind{}, missing
}

// indexTries is how often a group and version that is listed and not there is asked
// for again.
const indexTries = 5

// serves says whether the API server lists a group and version.
func (c *Client) serves(ctx context.Context, gv schema.GroupVersion) (bool, error) {
	r := request{method: http.MethodGet, path: "/apis"}
	if gv.Group == "" {
		r.path = "/api"
	}
	body, _, err := c.send(ctx, r)
	if err != nil {
		return false, fmt.Errorf("asking whether %s is served: %w", gv, err)
	}
	var index struct {
		Kind     string            `json:"kind"`
		Groups   []metav1.APIGroup `json:"groups"`
		Versions []string          `json:"versions"` // of the core group
	}
	if err := json.Unmarshal(body, &index); err != nil || index.Kind != "APIGroupList" && index.Kind != "APIVersions" {
		return false, c.strange(r, "no list of API groups")
	}
	for _, g := range index.Groups {
		for _, v := range g.Versions {
			if v.GroupVersion == gv.String() {
				return true, nil
			}
		}
	}
	return gv.Group == "" && slices.Contains(index.Versions, gv.Version), nil
}

// KindOf finds the kind of a resource ("configmaps") of an API group ("" for the
// core one) in the version that the server prefers.
func (c *Client) KindOf(ctx context.Context, group, resource string) (Kind, error) {
	gv := schema.GroupVersion{Version: "v1"}
	if group != "" {
		body, _, err := c.send(ctx, request{method: http.MethodGet, path: "/apis/" + url.PathEscape(group)})
		if err != nil {
			return Kind{}, err
		}
		var g metav1.APIGroup
		if err := json.Unmarshal(body, &g); err != nil {
			return Kind{}, fmt.Errorf("API group %s from %s: %w", group, c.Server(), err)
		}
		gv = schema.GroupVersion{Group: group, Version: g.PreferredVersion.Version}
	}
	kinds, err := c.discover(ctx, gv)
	if err != nil {
		return Kind{}, err
	}
	for _, k := range kinds {
		if k.Resource == resource {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("%s serves no %s in %s", c.Server(), resource, gv)
}

// KnownKind is Kind without a request; ok is false when that would need one.
func (c *Client) KnownKind(gvk schema.GroupVersionKind) (k Kind, ok bool) {
	if k, ok = builtin(gvk); ok {
		return k, true
	}
	kinds, _ := c.groups.peek(gvk.GroupVersion())
	k, ok = kinds[gvk.Kind]
	return k, ok
}

func (c *Client) discover(ctx context.Context, gv schema.GroupVersion) (map[string]Kind, error) {
	if strings.ContainsAny(gv.Group+gv.Version, "/?#% ") {
		return nil, fmt.Errorf("apiVersion %q is no valid group and version", gv)
	}
	r := request{method: http.MethodGet, path: groupPath(gv)}
	body, _, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil || list.Kind != "APIResourceList" {
		return nil, c.strange(r, "no list of the kinds of "+gv.String())
	}
	kinds := map[string]Kind{}
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") || r.Kind == "" {
			continue // a subresource
		}
		kinds[r.Kind] = Kind{GroupVersionKind: gv.WithKind(r.Kind), Resource: r.Name, Namespaced: r.Namespaced}
	}
	return kinds, nil
}

type request struct {
	method, path, contentType string
	query                     url.Values
	body                      []byte
	header                    http.Header // further ones
}

func (c *Client) object(ctx context.Context, r request) (Object, []string, error) {
	body, warnings, err := c.send(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	obj, err := c.decode(r, body)
	return obj, warnings, err
}

// one is object for the object of a name, and nothing else.
func (c *Client) one(ctx context.Context, k Kind, name string, r request) (Object, []string, error) {
	obj, warnings, err := c.object(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if meta, _ := obj["metadata"].(Object); obj["kind"] != k.Kind || meta["name"] != name {
		return nil, nil, c.strange(r, "no "+k.Kind+" "+name)
	}
	return obj, warnings, nil
}

func (c *Client) decode(r request, body []byte) (Object, error) {
	var obj Object
	if err := kjson.Unmarshal(body, &obj); err != nil || obj == nil {
		return nil, c.strange(r, "no JSON object")
	}
	return obj, nil
}

// strange is the error of an answer that is not what was asked for.
func (c *Client) strange(r request, what string) error {
	return &StrangeError{Answer: fmt.Sprintf("%s %s: the answer is %s: see what stands between here and the API server", r.method, c.Server()+r.path, what)}
}

// send sends r until it has an answer. Every request of this package is
// idempotent (apply, merge patch, delete by uid, reads), so all are sent again
// when the connection broke or the server asked for it.
func (c *Client) send(ctx context.Context, r request) ([]byte, []string, error) {
	var err error
	for try := range tries {
		var body []byte
		var warnings []string
		var after time.Duration
		before := err
		body, warnings, after, err = c.once(ctx, r)
		if err == nil {
			return body, warnings, nil
		}
		if ctx.Err() != nil {
			return nil, nil, c.ended(ctx, r, before)
		}
		if try == tries-1 || !retryable(err, try) {
			break
		}
		if after == 0 {
			after = time.Duration(float64(int(100)<<try)*(0.75+rand.Float64()/2)) * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return nil, nil, c.ended(ctx, r, err)
		case <-time.After(min(after, maxRetryAfter)):
		}
	}
	return nil, nil, c.explain(r, err)
}

// ended is the error of a request whose time was over while it was sent again
// after last, nil at the first time.
func (c *Client) ended(ctx context.Context, r request, last error) error {
	err := fmt.Errorf("%s %s: %w", r.method, c.Server()+r.path, context.Cause(ctx))
	if last != nil {
		err = fmt.Errorf("%w; before that: %v", err, c.explain(r, last))
	}
	return err
}

// retryable says whether sending the request again can help.
func retryable(err error, try int) bool {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		code := status.ErrStatus.Code
		// 504 of a webhook or of the server's own timeout would only double
		// the wait.
		return code == http.StatusTooManyRequests || code == http.StatusBadGateway ||
			code == http.StatusServiceUnavailable || code == http.StatusInternalServerError && try < 2
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsTemporary && try < 2
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return try < 3 // a server that restarts; one that isn't there fails soon
	}
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.As(err, &ne) && ne.Timeout() && try < 1 ||
		strings.Contains(err.Error(), "http2: ")
}

func (c *Client) once(ctx context.Context, r request) (body []byte, warnings []string, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.open(ctx, r)
	if err != nil {
		return nil, nil, 0, err
	}
	defer resp.Body.Close()
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.clock.Store(&clock{at, time.Now()})
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, nil, 0, err
	}
	if len(body) > maxBody {
		return nil, nil, 0, fmt.Errorf("the answer is larger than %d bytes", maxBody)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		if s, perr := strconv.Atoi(resp.Header.Get("Retry-After")); perr == nil && s > 0 {
			after = time.Duration(s) * time.Second
		}
		return nil, nil, after, statusError(resp, body)
	}
	return body, warningsOf(resp.Header), 0, nil
}

func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	return c.openWith(ctx, c.http, r)
}

func (c *Client) openWith(ctx context.Context, hc *http.Client, r request) (*http.Response, error) {
	u := *c.base
	// The segments of r.path are escaped already.
	u.RawPath = u.EscapedPath() + r.path
	p, err := url.PathUnescape(r.path)
	if err != nil {
		return nil, err
	}
	u.Path += p
	u.RawQuery = r.query.Encode()
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	// A kubelet answers 406 to who takes JSON alone: what it streams is none.
	req.Header.Set("Accept", "application/json, */*")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	return hc.Do(req)
}

// statusError makes the server's answer an error: its Status when there is
// one, else what HTTP says.
func statusError(resp *http.Response, body []byte) error {
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err == nil && s.Kind == "Status" && s.Message != "" {
		if s.Code == 0 {
			s.Code = int32(resp.StatusCode)
		}
		return &apierrors.StatusError{ErrStatus: s}
	}
	text := strings.TrimSpace(string(body))
	if len(text) > 200 || strings.HasPrefix(text, "<") {
		text = "" // a proxy's page
	}
	msg := "the server answered " + resp.Status
	if text != "" {
		msg += ": " + text
	}
	reason := metav1.StatusReasonUnknown
	switch resp.StatusCode {
	case http.StatusNotFound:
		return &NoPathError{Answer: msg}
	case http.StatusUnauthorized:
		reason = metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		reason = metav1.StatusReasonForbidden
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(resp.StatusCode), Reason: reason, Message: msg,
	}}
}

// warningsOf reads the API server's warnings: `299 - "text"`.
func warningsOf(h http.Header) []string {
	var out []string
	for _, w := range h.Values("Warning") {
		_, quoted, ok := strings.Cut(w, " - ")
		if !ok || !strings.HasPrefix(w, "299") || len(out) == 20 {
			continue
		}
		if text, err := strconv.Unquote(quoted); err == nil && len(text) < 4096 {
			out = append(out, text)
		}
	}
	return out
}

// UnreachableError says that the API server gave no answer.
type UnreachableError struct {
	Server string
	Err    error
}

func (e *UnreachableError) Error() string {
	if trust.Unknown(e.Err) {
		return fmt.Sprintf("the certificate of the API server %s is signed by an authority that is not known here: name it as certificate-authority in the kubeconfig, or %s", e.Server, trust.Advice())
	}
	if trust.OutOfTime(e.Err) {
		return fmt.Sprintf("no connection to the API server %s: %v: renew its certificate, or check the clock of this machine", e.Server, e.Err)
	}
	return fmt.Sprintf("no answer from the API server %s: %v: check the server address in the kubeconfig and the network", e.Server, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// NoPathError is a 404 that is no API server's word about an object: it comes from
// something on the way, such as a load balancer that has no API server at the
// moment, or says that nothing at all is served at this path. It must never be
// taken for an object that is gone.
type NoPathError struct{ Answer string }

func (e *NoPathError) Error() string { return e.Answer }

// StrangeError says that an answer that should be an API server's is none: it comes
// from something on the way, such as a page that asks for a login. Like [NoPathError]
// it says nothing of any object.
type StrangeError struct{ Answer string }

func (e *StrangeError) Error() string { return e.Answer }

// Transient says whether err is about the API server or the way to it, and not
// about what was asked: who waits for something can go on waiting.
func Transient(err error) bool {
	var away *UnreachableError
	var path *NoPathError
	var strange *StrangeError
	var status *apierrors.StatusError
	return errors.As(err, &away) || errors.As(err, &path) || errors.As(err, &strange) || errors.As(err, &status) &&
		(status.ErrStatus.Code >= 500 || status.ErrStatus.Code == http.StatusTooManyRequests)
}

// explain gives the error the words that the user can act on.
func (c *Client) explain(r request, err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		if status.ErrStatus.Code == http.StatusUnauthorized {
			return fmt.Errorf("the API server %s does not accept the credentials of the kubeconfig: %w", c.Server(), err)
		}
		if code := status.ErrStatus.Code; code >= 500 || code == http.StatusTooManyRequests {
			// Of itself it says "etcdserver: leader changed", and a proxy before it "no".
			return fmt.Errorf("the API server %s answers %d %s: %w; try again when it is well", c.Server(), code, http.StatusText(int(code)), err)
		}
		return err
	}
	var none *NoPathError
	if errors.As(err, &none) {
		return fmt.Errorf("%s %s: %w", r.method, c.Server()+r.path, err)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // its URL holds the query
	}
	return &UnreachableError{Server: c.Server(), Err: err}
}

// redact gives a URL without user, query and fragment.
func redact(u *url.URL) string {
	c := *u
	c.User, c.RawQuery, c.Fragment = nil, "", ""
	return c.String()
}
