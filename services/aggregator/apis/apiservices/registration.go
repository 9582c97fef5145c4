// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiservices registers an APIService for each group-version of the backends, as kube-apiserver does. It keeps the Available
// condition of all APIServices, and the condition Conflict of those that several backends claim.
package apiservices

import (
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// AutoRegistration is kube-aggregator's auto-registration controller, as far as a Registrar uses it.
type AutoRegistration interface {
	// AddAPIServiceToSyncOnStart registers an APIService once. If a user deletes or changes it later, it stays so until the next start.
	AddAPIServiceToSyncOnStart(in *apiregistrationv1.APIService)
	// AddAPIServiceToSync registers an APIService, and undoes later changes of users.
	AddAPIServiceToSync(in *apiregistrationv1.APIService)
	// RemoveAPIServiceToSync removes a registered APIService.
	RemoveAPIServiceToSync(name string)
	// Run syncs until the channel closes. It deletes APIServices in etcd that were not added before. So call it when the list is complete.
	Run(workers int, stopCh <-chan struct{})
}

// Registrar gives the auto-registration controller the APIServices of the backends.
type Registrar struct {
	RegistrarConfig
	registration AutoRegistration

	mu sync.Mutex
	// pending are the built-in APIServices that have never been available.
	pending map[string]bool
	// claims are what each backend says that it serves. A backend that has not reported has none.
	claims map[string]map[schema.GroupVersion]bool
	// ofCore are the groups of core.
	ofCore map[string]bool
	// owners are the backends of the registered group-versions that are not built in.
	owners map[schema.GroupVersion]string
	// logged are the conflicts that are in the log.
	logged map[string]bool
	// subscribers are notified of APIServices that other backends claim now, or no longer.
	subscribers []func(apiService string)
	// core and extensions are closed when that backend has reported its group-versions.
	core, extensions chan struct{}
}

// RegistrarConfig is what a Registrar needs.
type RegistrarConfig struct {
	// Backends are the names of all backends.
	Backends routing.Backends
	// Groups are the API groups that an additional backend may have, by its name. One that is not here may have each that is not built in.
	Groups map[string][]string
	// ServiceForm makes APIServices of core, extensions and its partitions name their backend in spec.service. Those of others always do.
	ServiceForm bool
	// Services are the APIServices in etcd.
	Services informers.APIServiceInformer
	// Client writes them.
	Client apiregistrationclient.APIServicesGetter
	// Register makes the auto-registration controller. It writes by the client.
	Register func(apiregistrationclient.APIServicesGetter) AutoRegistration
}

// NewRegistrar returns a registrar.
func NewRegistrar(config RegistrarConfig) (*Registrar, error) {
	r := &Registrar{
		RegistrarConfig: config,
		pending:         map[string]bool{}, claims: map[string]map[schema.GroupVersion]bool{}, owners: map[schema.GroupVersion]string{},
		logged: map[string]bool{},
		core:   make(chan struct{}), extensions: make(chan struct{}),
	}
	r.registration = config.Register(guard{config.Client, r})
	changed := func(obj any) {
		if deleted, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = deleted.Obj
		}
		if service, ok := obj.(*apiregistrationv1.APIService); ok {
			r.follow(groupVersionOf(service))
		}
	}
	_, err := config.Services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, now any) { changed(now) }, DeleteFunc: changed,
	})
	return r, err
}

// Run registers APIServices until the channel closes. It waits until core and extensions have reported all their group-versions, because
// APIServices that are missing from an incomplete list would be deleted. It does not wait for other backends: what is stored of them stays
// until they report.
func (r *Registrar) Run(stop <-chan struct{}) {
	for _, reported := range []chan struct{}{r.core, r.extensions} {
		select {
		case <-reported:
		case <-stop:
			return
		}
	}
	if !cache.WaitForCacheSync(stop, r.Services.Informer().HasSynced) {
		return
	}
	r.mu.Lock()
	r.registerCustom()
	r.mu.Unlock()
	r.registration.Run(5, stop)
}

// Subscribe calls the function when other backends claim an APIService now, or no longer. It must not block.
func (r *Registrar) Subscribe(notify func(apiService string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = append(r.subscribers, notify)
}

// Set registers the group-versions that a backend serves, and removes those that it no longer serves. As in kube-apiserver, group-versions
// of core without a priority in its table get no APIService. Others get none in a group of core: by claiming one, a compromised service
// would get requests for core.
func (r *Registrar) Set(backend string, served []schema.GroupVersion) {
	for _, gv := range served {
		_, known := apiVersionPriorities[gv]
		if backend == upstream.Core && known || backend == upstream.Extensions && gv == crdGroupVersion {
			r.registerOnStart(gv, backend)
		}
	}
	claims := make(map[schema.GroupVersion]bool, len(served))
	for _, gv := range served {
		claims[gv] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.claims[backend]
	r.claims[backend] = claims
	switch backend {
	case upstream.Core:
		r.ofCore = map[string]bool{}
		for gv := range claims {
			r.ofCore[gv.Group] = true
		}
		defer closeOnce(r.core)
	case upstream.Extensions:
		defer closeOnce(r.extensions)
	}
	r.registerCustom()
	for _, claims := range []map[schema.GroupVersion]bool{before, claims} {
		for gv := range claims {
			for _, notify := range r.subscribers {
				notify(nameOf(gv))
			}
		}
	}
}

// registerCustom registers all group-versions that are not core's. It waits for those of core, which no other service can take over. The
// caller holds the mutex.
func (r *Registrar) registerCustom() {
	if r.claims[upstream.Core] == nil {
		return
	}
	wanted := map[schema.GroupVersion]bool{}
	for _, backend := range r.Backends {
		for gv := range r.claims[backend] {
			if backend == upstream.Core {
				continue
			}
			if !r.mayHave(backend, gv) {
				r.refuse(backend, gv)
				continue
			}
			wanted[gv] = true
		}
	}
	stored, _ := r.Services.Lister().List(labels.Everything()) // a lister reads memory and has no errors
	for _, service := range stored {
		wanted[groupVersionOf(service)] = true
	}
	for gv := range r.owners {
		wanted[gv] = true
	}
	for gv := range wanted {
		r.register(gv)
	}
}

// register gives a group-version to its owner, if it has one. The caller holds the mutex.
func (r *Registrar) register(gv schema.GroupVersion) {
	before, now := r.owners[gv], r.ownerOf(gv)
	switch {
	case now != "":
		r.owners[gv] = now
		r.registration.AddAPIServiceToSync(r.customAPIService(gv, now))
		r.sayConflicts(gv, now)
	case before != "":
		delete(r.owners, gv)
		if !r.claims[upstream.Core][gv] {
			r.registration.RemoveAPIServiceToSync(nameOf(gv))
		}
	}
}

// follow takes over what is stored: another aggregator may have given a group-version to another backend.
func (r *Registrar) follow(gv schema.GroupVersion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[upstream.Core] != nil && r.ownerOf(gv) != r.owners[gv] {
		r.register(gv)
	}
}

// customAPIService returns the APIService of a group-version that is not built in. If extensions serves it in a group of core, it names no
// backend, because requests for that group never go to extensions. kube-apiserver does the same.
func (r *Registrar) customAPIService(gv schema.GroupVersion, owner string) *apiregistrationv1.APIService {
	service := r.apiService(gv, owner)
	if r.ofCore[gv.Group] {
		service.Spec.Service = nil
	}
	return service
}

// crdGroupVersion is the only built-in group-version of extensions.
var crdGroupVersion = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}

func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

func groupVersionOf(service *apiregistrationv1.APIService) schema.GroupVersion {
	return schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (r *Registrar) registerOnStart(gv schema.GroupVersion, owner string) {
	service := r.apiService(gv, owner)
	r.mu.Lock()
	if _, known := r.pending[service.Name]; !known {
		r.pending[service.Name] = true
	}
	r.mu.Unlock()
	r.registration.AddAPIServiceToSyncOnStart(service)
}

// servicePort is the default of spec.service.port. It is set explicitly, so that a new APIService equals the stored one.
const servicePort int32 = 443

func (r *Registrar) apiService(gv schema.GroupVersion, owner string) *apiregistrationv1.APIService {
	priority := PriorityOf(gv, owner)
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(gv)},
		Spec: apiregistrationv1.APIServiceSpec{
			Group:                gv.Group,
			Version:              gv.Version,
			GroupPriorityMinimum: priority.Group,
			VersionPriority:      priority.Version,
		},
	}
	if r.ServiceForm || owner != upstream.Core && !routing.Owner(owner).ServesCustomResources() {
		port := servicePort
		service.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: upstream.Namespace, Name: owner, Port: &port}
	}
	return service
}

// ReadyzCheck fails until every built-in APIService has been available once.
func (r *Registrar) ReadyzCheck(informer cache.SharedIndexInformer) (healthz.HealthChecker, error) {
	seen := func(obj any) {
		service, ok := obj.(*apiregistrationv1.APIService)
		if !ok || !helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pending[service.Name] = false
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, now any) { seen(now) },
	})
	if err != nil {
		return nil, err
	}
	return healthz.NamedCheck("autoregister-completion", func(*http.Request) error {
		select {
		case <-r.core:
		default:
			return fmt.Errorf("the group-versions of core are not known yet")
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for name, waiting := range r.pending {
			if waiting {
				return fmt.Errorf("APIService %s is not available yet", name)
			}
		}
		return nil
	}), nil
}
