// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/klog/v2"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"github.com/tripod-k8s/tripod/services/aggregator/apis/health"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// index lists the paths of all servers at /.
type index struct {
	own      func() []string
	services listers.APIServiceLister
	backends backends
	table    *routing.Table
}

// ServeHTTP answers with metav1.RootPaths, as kube-apiserver does.
func (i *index) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	paths := map[string]bool{}
	for _, path := range i.own() {
		paths[path] = true
	}
	services, err := i.services.List(labels.Everything())
	if err != nil {
		responsewriters.InternalError(w, req, err)
		return
	}
	for _, service := range services {
		if service.Spec.Group == "" {
			paths["/api"] = true
			continue
		}
		paths["/apis/"+service.Spec.Group] = true
		paths["/apis/"+service.Spec.Group+"/"+service.Spec.Version] = true
	}
	for _, b := range i.backends {
		listed, err := rootPaths(req, b.AsAggregator())
		if err != nil {
			klog.V(2).InfoS("A backend is missing from the index of paths", "backend", b.Name(), "err", err)
			continue
		}
		for _, path := range listed {
			if strings.HasPrefix(path, "/apis") || health.IsHealthPath(path) || i.table.Route(path).Owner != routing.Aggregator {
				paths[path] = true
			}
		}
	}
	responsewriters.WriteRawJSON(http.StatusOK, metav1.RootPaths{Paths: slices.Sorted(maps.Keys(paths))}, w)
}

// maxIndex bounds the size of a backend's list of paths.
const maxIndex = 8 << 20

func rootPaths(in *http.Request, b http.RoundTripper) ([]string, error) {
	req, err := http.NewRequestWithContext(in.Context(), http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	resp, err := b.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxIndex+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxIndex {
		return nil, fmt.Errorf("/ is larger than %d bytes", maxIndex)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/ answers %s", resp.Status)
	}
	var listed metav1.RootPaths
	if err := json.Unmarshal(body, &listed); err != nil {
		return nil, fmt.Errorf("/: %w", err)
	}
	return listed.Paths, nil
}
