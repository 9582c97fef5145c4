// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
)

// Legacy serves the list of groups at /apis and each group at /apis/GROUP, in the form without
// resources. It makes them from the APIServices.
type Legacy struct {
	lister     listers.APIServiceLister
	serializer runtime.NegotiatedSerializer
	// versions of the aggregator's own group, most preferred first.
	versions []string
	notFound http.Handler
	// serves reports whether clients may find an APIService.
	serves func(*apiregistrationv1.APIService) bool
}

// NewLegacy returns the handler. versions are those of apiregistration.k8s.io that are served. serves reports whether clients may find an
// APIService.
func NewLegacy(lister listers.APIServiceLister, s runtime.NegotiatedSerializer, versions []string, notFound http.Handler,
	serves func(*apiregistrationv1.APIService) bool) *Legacy {
	return &Legacy{lister: lister, serializer: s, versions: versions, notFound: notFound, serves: serves}
}

// ServeHTTP answers /apis and /apis/GROUP.
func (l *Legacy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	services, err := l.lister.List(labels.Everything())
	if err != nil {
		responsewriters.InternalError(w, req, err)
		return
	}
	services = slices.DeleteFunc(services, func(service *apiregistrationv1.APIService) bool { return !l.serves(service) })
	path := strings.Trim(strings.TrimPrefix(req.URL.Path, "/apis"), "/")
	if path == "" {
		l.write(w, req, l.list(services))
		return
	}
	for _, versions := range helper.SortedByGroupAndVersion(services) {
		if versions[0].Spec.Group == path {
			l.write(w, req, groupOf(versions))
			return
		}
	}
	l.notFound.ServeHTTP(w, req)
}

func (l *Legacy) write(w http.ResponseWriter, req *http.Request, obj runtime.Object) {
	responsewriters.WriteObjectNegotiated(l.serializer, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{}, w, req, http.StatusOK,
		obj, false)
}

// list returns all groups by priority, the aggregator's own first.
func (l *Legacy) list(services []*apiregistrationv1.APIService) *metav1.APIGroupList {
	own := metav1.APIGroup{Name: apiregistrationv1.GroupName}
	for _, version := range l.versions {
		own.Versions = append(own.Versions, forDiscovery(apiregistrationv1.GroupName, version))
	}
	own.PreferredVersion = own.Versions[0]

	groups := &metav1.APIGroupList{Groups: []metav1.APIGroup{own}}
	for _, versions := range helper.SortedByGroupAndVersion(services) {
		if versions[0].Spec.Group != "" {
			groups.Groups = append(groups.Groups, *groupOf(versions))
		}
	}
	return groups
}

// groupOf describes the group of APIServices that are sorted by version priority.
func groupOf(services []*apiregistrationv1.APIService) *metav1.APIGroup {
	group := &metav1.APIGroup{Name: services[0].Spec.Group}
	for _, service := range services {
		group.Versions = append(group.Versions, forDiscovery(service.Spec.Group, service.Spec.Version))
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

func forDiscovery(group, version string) metav1.GroupVersionForDiscovery {
	return metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version}
}
