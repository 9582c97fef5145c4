// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

const (
	// endingMemory is how long a deletion is remembered. It is forceLiveLookupTTL of k8s.io/apiserver's NamespaceLifecycle.
	endingMemory = 30 * time.Second
	// maxEndings bounds the memory of deletions to about a megabyte.
	maxEndings = 10_000
)

// Endings are the namespaces whose deletion the aggregator has passed on a moment ago. Admission in kube-apiserver has seen such a request
// itself, and then does not trust its cache. Here the deletion goes to one replica of core, and the next request in the namespace to
// another process.
type Endings struct{ recent *cache.LRUExpireCache }

// NewEndings returns endings for all forwarders of an aggregator.
func NewEndings() *Endings { return &Endings{cache.NewLRUExpireCache(maxEndings)} }

// note remembers a deletion that was carried out or has begun, before the client knows of it.
func (e *Endings) note(class *routing.Request, status int) {
	info := class.Info
	if info.Verb == "delete" && info.Resource == "namespaces" && info.APIGroup == "" && info.Subresource == "" &&
		status < http.StatusMultipleChoices {
		e.recent.Add(info.Name, true, endingMemory)
	}
}

// concern reports whether a request writes into such a namespace.
func (e *Endings) concern(req *http.Request) bool {
	info := routing.Of(req).Info
	switch {
	case info.Namespace == "" || info.Resource == "namespaces":
		return false
	case info.Verb != "create" && info.Verb != "update" && info.Verb != "patch":
		return false
	}
	_, ends := e.recent.Get(info.Namespace)
	return ends
}
