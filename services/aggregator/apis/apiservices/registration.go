// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiservices registers an APIService for each group-version of core and extensions, as kube-apiserver does. It keeps the Available condition of
// all APIServices.
package apiservices

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

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
	// Run syncs until the channel closes. It deletes APIServices in etcd that nobody has added before. So call it when the list is complete.
	Run(workers int, stopCh <-chan struct{})
}

// Registrar gives the auto-registration controller the APIServices of core and extensions.
type Registrar struct {
	registration AutoRegistration
	// serviceForm makes APIServices name their backend in spec.service.
	serviceForm bool

	mu sync.Mutex
	// pending are the built-in APIServices that have never been available.
	pending map[string]bool
	// ofCore are the group-versions of core. It is nil until core has reported them. ofExtensions are those that extensions claims.
	ofCore, ofExtensions []schema.GroupVersion
	// custom are the registered group-versions of CRDs.
	custom []schema.GroupVersion
	// core and extensions are closed when that backend has reported its group-versions.
	core, extensions chan struct{}
}

// NewRegistrar returns a registrar.
func NewRegistrar(registration AutoRegistration, serviceForm bool) *Registrar {
	return &Registrar{
		registration: registration, serviceForm: serviceForm,
		pending: map[string]bool{}, core: make(chan struct{}), extensions: make(chan struct{}),
	}
}

// Run registers APIServices until the channel closes. It waits until core and extensions have reported all their group-versions, because APIServices
// that are missing from an incomplete list would be deleted.
func (r *Registrar) Run(stop <-chan struct{}) {
	for _, reported := range []chan struct{}{r.core, r.extensions} {
		select {
		case <-reported:
		case <-stop:
			return
		}
	}
	r.registration.Run(5, stop)
}

// SetCore registers the group-versions that core serves. As in kube-apiserver, those without a priority in its table get no APIService.
func (r *Registrar) SetCore(served []schema.GroupVersion) {
	for _, gv := range served {
		if _, known := apiVersionPriorities[gv]; known {
			r.registerOnStart(gv, upstream.Core)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ofCore = append([]schema.GroupVersion{}, served...)
	r.registerCustom()
	closeOnce(r.core)
}

// SetExtensions registers the group-versions that extensions serves, and removes those that it no longer serves. It ignores group-versions of core: by
// claiming them, a compromised extensions would get requests for core.
func (r *Registrar) SetExtensions(served []schema.GroupVersion) {
	if slices.Contains(served, crdGroupVersion) {
		r.registerOnStart(crdGroupVersion, upstream.Extensions)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ofExtensions = served
	r.registerCustom()
	closeOnce(r.extensions)
}

// registerCustom registers the group-versions of CRDs. It waits for those of core, which a CRD cannot take over. The caller holds the mutex.
func (r *Registrar) registerCustom() {
	if r.ofCore == nil {
		return
	}
	var custom []schema.GroupVersion
	for _, gv := range r.ofExtensions {
		if !mayBeCustom(gv) || slices.Contains(r.ofCore, gv) {
			klog.V(2).InfoS("No APIService for a group-version of extensions, because it is not custom", "groupVersion", gv)
			continue
		}
		custom = append(custom, gv)
		r.registration.AddAPIServiceToSync(r.customAPIService(gv))
	}
	for _, gv := range r.custom {
		if !slices.Contains(custom, gv) && !slices.Contains(r.ofCore, gv) {
			r.registration.RemoveAPIServiceToSync(nameOf(gv))
		}
	}
	r.custom = custom
}

// customAPIService returns the APIService of a group-version of CRDs. If core serves the group, it names no backend, because requests for that group
// never go to extensions. kube-apiserver does the same.
func (r *Registrar) customAPIService(gv schema.GroupVersion) *apiregistrationv1.APIService {
	service := r.apiService(gv, upstream.Extensions)
	ofCore := slices.ContainsFunc(r.ofCore, func(other schema.GroupVersion) bool { return other.Group == gv.Group })
	if ofCore {
		service.Spec.Service = nil
	}
	return service
}

// crdGroupVersion is the only built-in group-version of extensions.
var crdGroupVersion = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}

func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

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
	if r.serviceForm {
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
