// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/version"

	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// What clients ask an API server about itself.

// versionPath is where clients ask for the version. They choose by it what they use of the API.
const versionPath = "/version"

// version answers with the version of a cluster. Of all clusters, or of one that has not answered yet, it is that of the Kubernetes in
// search.
func (h *Handler) version(w http.ResponseWriter, req *http.Request, n *Nested) error {
	if err := onlyGet(req); err != nil {
		return err
	}
	if n.Cluster != "" {
		document, err := h.store.ClusterVersion(req.Context(), n.Cluster)
		if err == nil {
			return h.writeJSON(w, req, jsonType, json.RawMessage(document))
		}
		if !errors.Is(err, streams.ErrNoDocument) {
			return asStatus(req.Context(), err)
		}
	}
	return h.writeJSON(w, req, jsonType, version.Get())
}

// isHealth reports whether a path is one where clients ask whether an API server works.
func isHealth(path string) bool {
	return slices.Contains([]string{"/healthz", "/livez", "/readyz"}, path)
}

// health answers that search works, which has answered up to here. It says nothing about the cluster.
func health(w http.ResponseWriter, req *http.Request) error {
	if err := onlyGet(req); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write([]byte("ok")) //nolint:errcheck // the client is gone
	return nil
}

func onlyGet(req *http.Request) error {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return notFound("only GET is possible here")
	}
	return nil
}

// atClusters says of subresources, by their path in the core group, what a copy of their object has instead of them.
var atClusters = map[string]string{
	"pods/log": "not their logs", "pods/exec": "nothing runs in them", "pods/attach": "nothing runs in them",
	"pods/portforward": "no way to them",
	"pods/proxy":       "no way to them", "services/proxy": "no way to them", "nodes/proxy": "no way to them",
}

// noSubresource is the error of a request for something that is not in an object itself.
func noSubresource(n *Nested) error {
	but, known := atClusters[n.Info.Resource+"/"+n.Info.Subresource]
	switch {
	case known && n.Info.APIGroup == "":
		return atCluster(n, but)
	case !slices.Contains(rights.Verbs, n.Info.Verb):
		return readOnly(n)
	}
	return notFound(fmt.Sprintf("%s of objects cannot be searched", n.Info.Subresource))
}

// readOnly is the error of a request that would change something.
func readOnly(n *Nested) error { return atCluster(n, "cannot change them") }

// atCluster is the error of a request that only the cluster of an object can answer. Clients such as k9s show it as it is.
func atCluster(n *Nested, but string) error {
	where := "their cluster"
	if n.Cluster != "" {
		where = "cluster " + n.Cluster
	}
	of := n.Resource().GroupResource()
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: fmt.Sprintf("search has copies of %s, but %s: ask %s itself, with a kubeconfig of its own", of, but, where),
		Details: &metav1.StatusDetails{Group: of.Group, Kind: of.Resource, Name: n.Info.Name},
	}}
}
