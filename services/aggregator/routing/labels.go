// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// Labels returns what metrics may say about a request: its RequestInfo without names that only the client knows. So a client that asks for
// more and more resources that do not exist makes no more and more series.
func (r *Request) Labels() *request.RequestInfo {
	labels := *r.Info
	labels.Path, labels.Parts = "", nil
	if r.table == nil || !r.table.has(r.Owner, &labels) {
		labels.Resource, labels.Subresource = "", ""
		if r.Owner != Aggregated { // whose groups and versions APIServices name
			labels.APIGroup, labels.APIVersion = "", ""
		}
	}
	return &labels
}

// has reports whether the owner serves a resource, as far as its discovery is known.
func (t *Table) has(owner Owner, info *request.RequestInfo) bool {
	return t.current.Load().resources[owner][subresourceOf(info)]
}

// LabelResolver is a request.RequestInfoResolver for filters that only count.
type LabelResolver struct{ Table *Table }

// NewRequestInfo returns the Labels of a request.
func (l LabelResolver) NewRequestInfo(req *http.Request) (*request.RequestInfo, error) {
	class, err := l.Table.classify(req)
	return class.Labels(), err
}
