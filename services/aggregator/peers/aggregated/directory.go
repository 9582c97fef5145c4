// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregated finds the aggregated API servers and checks their health. Each APIService has a backend (package upstream), whose
// replicas are the endpoints of its Service. The aggregator checks each endpoint by the discovery document of the group-version.
// kube-aggregator checks the Service as a whole.
package aggregated

import (
	"context"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/services/aggregator/upstream/connections"
)

// Config says how to find API servers, and which certificates to use.
type Config struct {
	Services       coreinformers.ServiceInformer
	EndpointSlices discoveryinformers.EndpointSliceInformer
	// ByEndpoint sends requests to endpoints instead of cluster IPs (--enable-aggregator-routing).
	ByEndpoint bool
	// ClientCert returns the certificate and key (PEM) of the aggregator.
	ClientCert func() (cert, key []byte)
	// Dial makes connections. It is nil if no egress selector is configured.
	Dial connections.Dial
}

// forgetInterval is the time between two searches for removed servers that have finished.
const forgetInterval = time.Minute

// Directory has all aggregated API servers.
type Directory struct {
	config   Config
	resolver resolver
	synced   []cache.InformerSynced

	// ordering is held from the lookup of Services until its result is stored, so that the newest result wins.
	ordering sync.Mutex

	mu sync.Mutex
	// servers are by the name of their APIService. A removed server stays, without endpoints, until it has finished its requests.
	servers map[string]*Server
	// added are servers that Run has not started to check.
	added       []*Server
	subscribers []func(apiService string)
	changed     chan struct{}
}

// New returns a directory without servers. It follows Services and EndpointSlices.
func New(config Config) (*Directory, error) {
	getter, err := utilproxy.NewEndpointSliceIndexerGetter(config.EndpointSlices)
	if err != nil {
		return nil, err
	}
	d := &Directory{
		config:   config,
		resolver: resolver{services: config.Services.Lister(), slices: getter, byEndpoint: config.ByEndpoint},
		servers:  map[string]*Server{},
		changed:  make(chan struct{}, 1),
	}
	for informer, serviceOf := range map[cache.SharedIndexInformer]func(metav1.Object) string{
		config.Services.Informer():       metav1.Object.GetName,
		config.EndpointSlices.Informer(): func(o metav1.Object) string { return o.GetLabels()[discoveryv1.LabelServiceName] },
	} {
		follow := func(obj any) { d.follow(obj, serviceOf) }
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: follow, UpdateFunc: func(before, now any) { follow(before); follow(now) }, DeleteFunc: follow,
		})
		if err != nil {
			return nil, err
		}
		d.synced = append(d.synced, registration.HasSynced)
	}
	return d, nil
}

// follow handles a change of a Service or an EndpointSlice.
func (d *Directory) follow(obj any, serviceOf func(metav1.Object) string) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	object, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	name := serviceOf(object)
	d.mu.Lock()
	var concerned []*Server
	for _, s := range d.servers {
		if ref := s.reference(); ref.Namespace == object.GetNamespace() && ref.Name == name {
			concerned = append(concerned, s)
		}
	}
	d.mu.Unlock()
	for _, s := range concerned {
		d.locate(s)
	}
}

// locate updates the endpoints of a server.
func (d *Directory) locate(s *Server) {
	d.ordering.Lock()
	changed := s.locate(&d.resolver)
	d.ordering.Unlock()
	if changed {
		d.notify(s.name)
	}
}

// HasSynced reports whether the directory has seen all Services and EndpointSlices. Until then, existing ones may seem to be missing.
func (d *Directory) HasSynced() bool {
	return !slices.ContainsFunc(d.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// Subscribe makes the directory call notify with the name of an APIService when the state of its server changes. notify must not block.
func (d *Directory) Subscribe(notify func(apiService string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers = append(d.subscribers, notify)
}

func (d *Directory) notify(apiService string) {
	d.mu.Lock()
	subscribers := slices.Clone(d.subscribers)
	d.mu.Unlock()
	for _, notify := range subscribers {
		notify(apiService)
	}
}

// Set adds or updates the server of an APIService with a spec.service, and returns it.
func (d *Directory) Set(service *apiregistrationv1.APIService) *Server {
	cert, key := d.config.ClientCert()
	d.mu.Lock()
	s, known := d.servers[service.Name]
	if !known {
		s = newServer(service, d.config.Dial)
		d.servers[service.Name] = s
		d.added = append(d.added, s)
		s.backend.Subscribe(func() { d.notify(s.name) })
	}
	s.revive()
	d.mu.Unlock()
	s.set(service, cert, key)
	d.locate(s)
	select {
	case d.changed <- struct{}{}:
	default:
	}
	return s
}

// Remove takes all endpoints from the server of an APIService. When the server has finished its requests, the directory forgets it.
func (d *Directory) Remove(apiService string) {
	d.mu.Lock()
	s := d.servers[apiService]
	d.mu.Unlock()
	if s != nil {
		d.ordering.Lock()
		s.remove()
		d.ordering.Unlock()
	}
}

// State returns the state of the server of an APIService. It returns false while the state is unknown.
func (d *Directory) State(apiService string) (State, bool) {
	d.mu.Lock()
	s := d.servers[apiService]
	d.mu.Unlock()
	if s == nil || !d.HasSynced() {
		return State{}, false
	}
	return s.state()
}

// forget removes the servers that were removed and have finished their requests.
func (d *Directory) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, s := range d.servers {
		if s.finished() && !slices.Contains(d.added, s) {
			delete(d.servers, name)
			close(s.forgotten)
			s.backend.Forget()
		}
	}
}

// Run finds and checks the servers until the context ends.
func (d *Directory) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	forget := time.NewTicker(forgetInterval)
	defer forget.Stop()
	for {
		d.mu.Lock()
		added := d.added
		d.added = nil
		d.mu.Unlock()
		for _, s := range added {
			tasks.Go(func() { s.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		case <-forget.C:
			d.forget()
		}
	}
}
