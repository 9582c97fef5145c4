// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
)

// maxTarget bounds what a person may write.
const maxTarget = 2 << 10

// Verbs are those of Kubernetes, in the order of forms.
var Verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// Action is what a user wants to do.
type Action struct {
	// Verb is one of Kubernetes, or a method of HTTP, in upper or lower case.
	Verb string
	// Target is a path such as /api/v1/namespaces/shop/pods, or RESOURCE[/NAME[/SUBRESOURCE]], such as pods/front/log or deployments.apps.
	Target string
	// Namespace is that of a resource. It does not count for a path.
	Namespace string
}

// BadAction is an error of what a person has written.
type BadAction struct{ error }

func bad(format string, args ...any) error { return BadAction{fmt.Errorf(format, args...)} }

// request returns the request of an action, which is never sent.
func (a Action) request(ctx context.Context, client kubernetes.Interface) (*http.Request, error) {
	verb := strings.ToLower(a.Verb)
	method := methods[verb]
	switch {
	case method == "":
		return nil, bad("%q is no verb: verbs are %s", a.Verb, strings.Join(Verbs, ", "))
	case a.Target == "":
		return nil, bad("name a path such as /api/v1/pods, or a resource such as deployments.apps/front")
	case len(a.Target) > maxTarget:
		return nil, bad("the path has %d characters, at most %d are possible", len(a.Target), maxTarget)
	}
	path := a.Target
	if !strings.HasPrefix(path, "/") {
		var err error
		if path, err = a.path(ctx, client); err != nil {
			return nil, err
		}
	}
	u, err := url.ParseRequestURI(path)
	if err != nil || u.Host != "" || strings.HasPrefix(path, "//") {
		return nil, bad("%q is no path such as /api/v1/pods", path)
	}
	if verb == "watch" {
		values := u.Query()
		values.Set("watch", "true")
		u.RawQuery = values.Encode()
	}
	return http.NewRequestWithContext(ctx, method, u.String(), nil)
}

// path returns the path of a resource, in the version that the API prefers.
func (a Action) path(ctx context.Context, client kubernetes.Interface) (string, error) {
	parts := strings.Split(a.Target, "/")
	if len(parts) > 3 {
		return "", bad("%q is no resource: write RESOURCE, RESOURCE/NAME or RESOURCE/NAME/SUBRESOURCE", a.Target)
	}
	cached := memory.NewMemCacheClient(client.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	gvr, err := mapper.ResourceFor(schema.ParseGroupResource(strings.ToLower(parts[0])).WithVersion(""))
	if meta.IsNoMatchError(err) {
		return "", bad("the API has no resource %q: write its path if it is known", parts[0])
	}
	if err != nil {
		return "", fmt.Errorf("cannot look up the resource %q: %w", parts[0], err)
	}
	kind, err := mapper.KindFor(gvr)
	if err != nil {
		return "", err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return "", err
	}
	segments := []string{"apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		segments = []string{"api", gvr.Version}
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case namespaced && a.Namespace != "":
		segments = append(segments, "namespaces", a.Namespace)
	case namespaced && len(parts) > 1:
		return "", bad("%s are in namespaces: name one", gvr.GroupResource())
	}
	segments = append(append(segments, gvr.Resource), parts[1:]...)
	for i, segment := range segments {
		if segment == "" || segment == "." || segment == ".." || len(segment) > validation.DNS1123SubdomainMaxLength {
			return "", bad("%q is no name", segment)
		}
		segments[i] = url.PathEscape(segment)
	}
	return "/" + strings.Join(segments, "/"), nil
}
