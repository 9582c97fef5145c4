// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/balance"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// description is what a request is, as far as its way to a replica is concerned.
type description struct {
	balance balance.Request
	wire    connections.Wire
	// safe is set when the request only reads, so that it may be processed twice.
	safe bool
	// resource is that of a request for a custom resource.
	resource schema.GroupResource
	// answers429 is set when 429 is an answer to the request, and not for want of capacity.
	answers429 bool
}

// crdGroup is the group of the definitions, which every replica of extensions has.
const crdGroup = "apiextensions.k8s.io"

// longRunning are the subresources whose requests go on until somebody ends them, and acting those
// that do something, whatever the method is.
var (
	longRunning = []string{"attach", "exec", "log", "portforward", "proxy"}
	acting      = []string{"attach", "exec", "portforward"}
)

func (b *Backend) describe(req *http.Request) description {
	d := description{safe: req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions}
	if info, ok := request.RequestInfoFrom(req.Context()); ok {
		d.answers429 = info.Subresource == "eviction"
		if info.Verb == "watch" || slices.Contains(longRunning, info.Subresource) || info.Verb == "proxy" {
			d.balance.Kind = balance.Watch
		}
		if slices.Contains(acting, info.Subresource) {
			d.safe = false
		}
		if info.IsResourceRequest && b.name == Extensions && info.APIGroup != crdGroup {
			d.balance.Key = balance.Key(info.APIGroup, info.Resource)
			d.resource = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
		}
	} else if strings.Contains(req.URL.RawQuery, "watch=true") || strings.Contains(req.URL.RawQuery, "watch=1") {
		// One of the aggregator's own.
		d.balance.Kind = balance.Watch
	}
	switch upgrade := httpstream.IsUpgradeRequest(req); {
	case upgrade:
		d.balance.Kind, d.safe, d.wire = balance.Watch, false, connections.Exclusive
	case isAnonymous(req):
		// An API server ends the HTTP/2 connection of an anonymous request (CVE-2023-44487). The
		// aggregator does the same to the client's own.
		d.wire = connections.Exclusive
	case d.safe && d.balance.Kind == balance.Short:
		d.wire = connections.Either
	}
	return d
}

func (d *description) isCustom() bool { return d.resource.Resource != "" }

// isAnonymous reports whether an API server takes the sender for unauthenticated, by its rule.
func isAnonymous(req *http.Request) bool {
	sender, ok := request.UserFrom(req.Context())
	return ok && (sender.GetName() == user.Anonymous || slices.Contains(sender.GetGroups(), user.AllUnauthenticated))
}
