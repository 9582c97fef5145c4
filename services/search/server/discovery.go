// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/munnerz/goautoneg"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// verbs are what can be done with objects of clusters.
var verbs = []string{"get", "list", "watch"}

// discover answers a request for a discovery document of the clusters.
func (h *Handler) discover(w http.ResponseWriter, req *http.Request, n *Nested) error {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return notFound("only GET is possible here")
	}
	kinds, err := h.readableKinds(req.Context(), n.Cluster)
	if err != nil {
		return err
	}
	of := n.discovered
	kinds = slices.DeleteFunc(kinds, func(k streams.Kind) bool { return of.core != (k.Group == "") })
	switch {
	case of.Empty() && wantsAggregated(req):
		return h.writeJSON(w, req, jsonType+";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", aggregated(kinds))
	case of.Empty() && of.core:
		return h.writeJSON(w, req, jsonType, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case of.Empty():
		return h.writeJSON(w, req, jsonType, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: groups(kinds)})
	case of.Version == "":
		all := groups(kinds)
		if i := slices.IndexFunc(all, func(g metav1.APIGroup) bool { return g.Name == of.Group }); i >= 0 {
			return h.writeJSON(w, req, jsonType, all[i])
		}
		return notFound("no cluster has the group " + of.Group)
	}
	gv := of.GroupVersion
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{}}
	for _, k := range kinds {
		if k.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Name, Verbs: verbs, ShortNames: k.ShortNames,
				Categories: k.Categories,
			})
		}
	}
	if len(list.APIResources) == 0 && gv != (schema.GroupVersion{Version: "v1"}) {
		return notFound("no cluster has the group-version " + gv.String())
	}
	return h.writeJSON(w, req, jsonType, list)
}

const (
	jsonType = "application/json"
	yamlType = "application/yaml"
)

// writeJSON writes a document, for which it holds memory meanwhile. An error comes before anything is written.
func (h *Handler) writeJSON(w http.ResponseWriter, req *http.Request, contentType string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return h.writeText(w, req, contentType, text)
}

// writeDocument does the same in the language that the client accepts.
func (h *Handler) writeDocument(w http.ResponseWriter, req *http.Request, as representation, document any) error {
	if !as.yaml {
		return h.writeJSON(w, req, jsonType, document)
	}
	text, err := json.Marshal(document)
	if err == nil {
		text, err = toYAML(text)
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return h.writeText(w, req, yamlType, text)
}

// writeText does the same with the text of a document.
func (h *Handler) writeText(w http.ResponseWriter, req *http.Request, contentType string, text []byte) error {
	memory := h.budget.hold(req.Context())
	defer memory.release()
	if err := memory.charge(int64(len(text))); err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	inTime(w, h.writeTimeout, func() error { return writeAll(w, bytes.NewReader(text)) }) //nolint:errcheck // the client is gone
	return nil
}

// writeAll writes a document, and all that the server still has of it.
func writeAll(w http.ResponseWriter, document io.Reader) error {
	if _, err := io.Copy(struct{ io.Writer }{w}, document); err != nil {
		return err
	}
	if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil // a recorder of tests
}

func wantsAggregated(req *http.Request) bool {
	return slices.ContainsFunc(goautoneg.ParseAccept(req.Header.Get("Accept")), func(a goautoneg.Accept) bool {
		return a.SubType == "json" && a.Params["as"] == "APIGroupDiscoveryList" && a.Params["g"] == apidiscoveryv2.GroupName &&
			a.Params["v"] == "v2"
	})
}

// versionsOf returns the groups of kinds in their order, and the versions of each, the preferred one first.
func versionsOf(kinds []streams.Kind) (order []string, versions map[string][]string) {
	versions = map[string][]string{}
	for _, k := range kinds {
		if !slices.Contains(order, k.Group) {
			order = append(order, k.Group)
		}
		if !slices.Contains(versions[k.Group], k.Version) {
			versions[k.Group] = append(versions[k.Group], k.Version)
		}
	}
	slices.Sort(order)
	for _, all := range versions {
		slices.SortFunc(all, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	}
	return order, versions
}

func groups(kinds []streams.Kind) []metav1.APIGroup {
	order, versions := versionsOf(kinds)
	all := []metav1.APIGroup{}
	for _, name := range order {
		g := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: name}
		for _, v := range versions[name] {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
		}
		g.PreferredVersion = g.Versions[0]
		all = append(all, g)
	}
	return all
}

// aggregated returns the document that has all groups at once.
func aggregated(kinds []streams.Kind) apidiscoveryv2.APIGroupDiscoveryList {
	order, versions := versionsOf(kinds)
	list := apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscoveryv2.SchemeGroupVersion.String()},
		Items:    []apidiscoveryv2.APIGroupDiscovery{},
	}
	for _, name := range order {
		group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, v := range versions[name] {
			group.Versions = append(group.Versions, apidiscoveryv2.APIVersionDiscovery{
				Version: v, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Resources: resourcesOf(kinds, schema.GroupVersion{Group: name,
					Version: v}),
			})
		}
		list.Items = append(list.Items, group)
	}
	return list
}

func resourcesOf(kinds []streams.Kind, gv schema.GroupVersion) (all []apidiscoveryv2.APIResourceDiscovery) {
	for _, k := range kinds {
		if k.GroupVersion() != gv {
			continue
		}
		scope := apidiscoveryv2.ScopeCluster
		if k.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		all = append(all, apidiscoveryv2.APIResourceDiscovery{
			Resource: k.Resource, ResponseKind: &metav1.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Name}, Scope: scope,
			SingularResource: k.Singular, Verbs: verbs, ShortNames: k.ShortNames, Categories: k.Categories,
		})
	}
	return all
}
