// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package searchclient

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// kindsAge is how long the kinds of search are remembered.
const kindsAge = 15 * time.Second

// kinds are those that search has for the caller.
type kinds struct {
	ask  *rest.Config
	with *http.Client

	mu     sync.Mutex
	mapper meta.RESTMapper
	asked  time.Time
}

// current returns the kinds. Discovery is read when a kind is first looked for.
func (k *kinds) current() (meta.RESTMapper, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mapper != nil && time.Since(k.asked) < kindsAge {
		return k.mapper, nil
	}
	below := rest.CopyConfig(k.ask)
	below.Host = strings.TrimSuffix(below.Host, "/") + Resources
	client, err := discovery.NewDiscoveryClientForConfigAndClient(below, k.with)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client)
	k.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	k.asked = time.Now()
	return k.mapper, nil
}

// Find returns the resource of a kind as people write it: Pod, pods, po, or with a group: boats.example.com.
func (k *kinds) Find(name string) (*meta.RESTMapping, error) {
	mapper, err := k.current()
	if err != nil {
		return nil, err
	}
	found, err := mapper.KindFor(schema.ParseGroupResource(strings.ToLower(name)).WithVersion(""))
	if err == nil {
		return mapper.RESTMapping(found.GroupKind(), found.Version)
	}
	if meta.IsNoMatchError(err) {
		return nil, &Error{http.StatusNotFound, fmt.Sprintf("search has no kind %s in the clusters that you may read", name)}
	}
	return nil, err
}
