// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/apis/apiservices"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// searchGroup is the group of search.
const searchGroup = "clusterpedia.io"

// Aggregator is the name of the service that is no backend.
const Aggregator = string(routing.Aggregator)

// User is the one whose request it is. It is the caller if the name is empty.
type User struct {
	Name   string
	Groups []string
}

// Caller returns whether the user is the caller.
func (u User) Caller() bool { return u.Name == "" && len(u.Groups) == 0 }

// Explanation is what would become of a request.
type Explanation struct {
	// Request is its method and path, and Attributes what it is to authorizers.
	Request    string `json:"request"`
	Attributes string `json:"attributes"`
	// Service would serve it: the name of a service of Tripod, or a text if it is none of these, or if the caller may not know. Rule says why.
	Service string `json:"service"`
	Rule    string `json:"rule"`
	// Known is whether Service is the name of a service of Tripod.
	Known bool `json:"known"`
	// Allowed is whether the user may do that, by Reason. Asked is false if the caller may not ask that.
	Asked   bool     `json:"asked"`
	Allowed bool     `json:"allowed"`
	Reason  string   `json:"reason"`
	Notes   []string `json:"notes,omitempty"`
	// Replicas are those of the service, if the caller asked for them.
	Replicas []ReplicaState `json:"replicas,omitempty"`
}

// Explain says what would become of a request. It sends reads of APIServices and discovery, and one access review.
func Explain(ctx context.Context, client kubernetes.Interface, action Action, user User) (*Explanation, error) {
	r, err := action.request(ctx, client)
	if err != nil {
		return nil, err
	}
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Request: r.Method + " " + r.URL.RequestURI(), Attributes: attributes(info)}
	if err := e.route(ctx, client, r.URL); err != nil {
		return nil, err
	}
	if info.APIGroup == searchGroup { // the path goes on with what is asked for in clusters, which no review has
		e.Reason = "Search decides that by its own rules, by what the path asks for in clusters."
		return e, nil
	}
	return e, e.authorize(ctx, client, info, user)
}

func attributes(info *request.RequestInfo) string {
	if !info.IsResourceRequest {
		return info.Verb + " " + info.Path
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	text := info.Verb + " " + resource + " of group " + fmt.Sprintf("%q", info.APIGroup)
	if info.Name != "" {
		text += ", name " + info.Name
	}
	if info.Namespace != "" {
		text += ", namespace " + info.Namespace
	}
	return text
}

// route looks the path up in the aggregator's table, filled with the APIServices that the caller may list.
func (e *Explanation) route(ctx context.Context, client kubernetes.Interface, u *url.URL) error {
	var services apiregistrationv1.APIServiceList
	raw, err := client.Discovery().RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").Do(ctx).Raw()
	forbidden := apierrors.IsForbidden(err)
	if err == nil {
		err = json.Unmarshal(raw, &services)
	}
	if err != nil && !forbidden {
		return fmt.Errorf("cannot list APIServices: %w", err)
	}
	var backends []string
	for i := range services.Items {
		if ref := services.Items[i].Spec.Service; ref != nil && ref.Namespace == trust.Namespace && ref.Name != string(routing.Aggregator) {
			backends = append(backends, ref.Name)
		}
	}
	table := routing.NewTable(apiservices.Builtin, backends...)
	var named *apiregistrationv1.APIService
	gv := groupVersion(u.Path)
	for i := range services.Items {
		service := &services.Items[i]
		table.SetAPIService(service, nil)
		if gv.Version != "" && service.Spec.Group == gv.Group && service.Spec.Version == gv.Version {
			named = service
		}
	}
	if !forbidden {
		table.SetComplete()
	}
	owner := table.RouteURL(u).Owner
	if owner == routing.Unknown && gv == (schema.GroupVersion{}) { // the list of groups, whatever APIServices there are
		owner = routing.Aggregator
	}
	e.describe(owner, named, gv, forbidden)
	return nil
}

// groupVersion returns that of a path, or nothing.
func groupVersion(path string) schema.GroupVersion {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case parts[0] == "api": // one APIService is for all of it
		return schema.GroupVersion{Version: "v1"}
	case parts[0] == "apis" && len(parts) > 2:
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}
	case parts[0] == "apis" && len(parts) > 1:
		return schema.GroupVersion{Group: parts[1]}
	}
	return schema.GroupVersion{}
}

// describe sets which service serves a path, and why.
func (e *Explanation) describe(owner routing.Owner, named *apiregistrationv1.APIService, gv schema.GroupVersion, forbidden bool) {
	e.Service, e.Known = string(owner), true
	switch {
	case forbidden && owner != routing.Aggregator && gv != (schema.GroupVersion{}):
		e.Service, e.Known = "not known", false
		e.Rule = "You may not list APIServices, which say who serves " + gv.String() + "."
		return
	case owner == routing.Aggregator:
		e.Rule = "The aggregator itself serves APIServices, lists of groups, OpenAPI and health."
	case owner == routing.Aggregated && named != nil:
		ref := named.Spec.Service
		e.Service, e.Known = "aggregated API server "+ref.Namespace+"/"+ref.Name, false
		e.Rule = "The APIService " + named.Name + " names that Service."
		e.Notes = append(e.Notes, "An aggregated API server may refuse what is allowed here.")
	case gv == (schema.GroupVersion{}) && owner == routing.Core:
		e.Rule = "Paths outside of API groups go to core, unless the aggregator serves them itself."
	case named == nil && owner == routing.Unknown:
		e.Service, e.Known = string(routing.Extensions)+", or one of its partitions", false
		e.Rule = "No APIService names " + gv.String() + ". Groups that no APIService names are those of custom resources."
	case named == nil:
		e.Rule = "No APIService names " + gv.String() + ". The group is one of Kubernetes, so " + string(owner) + " answers."
	case named.Spec.Service == nil && !apiservices.Builtin(gv.Group):
		e.Service, e.Known = string(routing.Extensions)+", or one of its partitions", false
		e.Rule = "The APIService " + named.Name + " names no service, and the group is none of Kubernetes."
	case named.Spec.Service == nil:
		e.Rule = "The APIService " + named.Name + " names no service, and the group is one of Kubernetes."
	default:
		e.Rule = "The APIService " + named.Name + " names " + named.Spec.Service.Namespace + "/" + named.Spec.Service.Name + "."
		if !ofTripod(named.Spec.Service.Name) {
			e.Rule += " If the aggregator has no backend of that name, it is an aggregated API server."
		}
		if string(owner) != named.Spec.Service.Name {
			e.Rule += " But the group is one of Kubernetes, which " + string(owner) + " serves."
		}
	}
	if partition, is := addresses.PartitionOf(string(owner)); is {
		e.Rule += " That is the partition " + partition + " of extensions."
	}
	e.available(named)
}

// ofTripod returns whether each aggregator has a backend of a name.
func ofTripod(name string) bool {
	_, partition := addresses.PartitionOf(name)
	return partition || name == string(routing.Core) || name == string(routing.Extensions)
}

// available notes that an APIService is not available.
func (e *Explanation) available(named *apiregistrationv1.APIService) {
	if named == nil {
		return
	}
	for _, condition := range named.Status.Conditions {
		if condition.Type == apiregistrationv1.Available && condition.Status != apiregistrationv1.ConditionTrue {
			e.Notes = append(e.Notes, "The APIService is not available: "+condition.Reason+": "+condition.Message)
		}
	}
}

// authorize asks whether the user may do that.
func (e *Explanation) authorize(ctx context.Context, client kubernetes.Interface, info *request.RequestInfo, user User) error {
	var resource *authorizationv1.ResourceAttributes
	var other *authorizationv1.NonResourceAttributes
	if info.IsResourceRequest {
		resource = &authorizationv1.ResourceAttributes{
			Namespace: info.Namespace, Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource,
			Subresource: info.Subresource, Name: info.Name,
		}
		// The node authorizer decides by selectors, too.
		if info.FieldSelector != "" {
			resource.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: info.FieldSelector}
		}
		if info.LabelSelector != "" {
			resource.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: info.LabelSelector}
		}
	} else {
		other = &authorizationv1.NonResourceAttributes{Path: info.Path, Verb: info.Verb}
	}
	var status authorizationv1.SubjectAccessReviewStatus
	var err error
	if user.Caller() {
		var review *authorizationv1.SelfSubjectAccessReview
		review, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: resource, NonResourceAttributes: other},
		}, metav1.CreateOptions{})
		if err == nil {
			status = review.Status
		}
	} else {
		var review *authorizationv1.SubjectAccessReview
		review, err = client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user.Name, Groups: user.Groups, ResourceAttributes: resource, NonResourceAttributes: other,
			},
		}, metav1.CreateOptions{})
		if err == nil {
			status = review.Status
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		e.Reason = "You may not ask that: " + err.Error()
		return nil
	case err != nil:
		return fmt.Errorf("the API does not say what the user may do: %w", err)
	}
	e.Asked, e.Allowed, e.Reason = true, status.Allowed, status.Reason
	if e.Reason == "" && !e.Allowed {
		e.Reason = "No authorizer allows it, as no binding of RBAC does."
	}
	if status.EvaluationError != "" {
		e.Notes = append(e.Notes, "Not all rules could be read: "+strings.TrimSpace(status.EvaluationError))
	}
	return nil
}

// methods are those of the verbs of Kubernetes, with the parameters that make the difference.
var methods = map[string]string{
	"get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut,
	"patch": http.MethodPatch, "delete": http.MethodDelete, "deletecollection": http.MethodDelete, "head": http.MethodHead,
	"post": http.MethodPost, "put": http.MethodPut, "options": http.MethodOptions,
}
