// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/certificates"
	coreinformers "k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// informerName is what metrics of the informers, such as informer_store_resource_version, have in their label "name".
const informerName = "policy"

// newInformers returns informers on RBAC objects that keep of each what decides.
func newInformers(core *rest.Config) (informers.SharedInformerFactory, error) {
	core = rest.CopyConfig(core)
	core.Wrap(func(next http.RoundTripper) http.RoundTripper { return &patient{next: next} })
	client, err := kubernetes.NewForConfig(core)
	if err != nil {
		return nil, err
	}
	options := []informers.SharedInformerOption{informers.WithTransform(trim)}
	// The name can be taken by another policy in the same process, and then this one has no metrics.
	if name, err := cache.NewInformerName(informerName); err == nil {
		options = append(options, informers.WithInformerName(name))
	}
	return informers.NewSharedInformerFactoryWithOptions(client, 0, options...), nil
}

func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetAnnotations(nil)
		accessor.SetLabels(nil)
	}
	return object, nil
}

// rbacOnly is a factory whose informers are idle where they would fill the graph of mode Node.
type rbacOnly struct {
	informers.SharedInformerFactory
}

func (rbacOnly) Core() coreinformers.Interface { return coreinformers.New(idleFactory{}, "", nil) }
func (rbacOnly) Storage() storage.Interface    { return storage.New(idleFactory{}, "", nil) }
func (rbacOnly) Resource() resource.Interface  { return resource.New(idleFactory{}, "", nil) }
func (rbacOnly) Certificates() certificates.Interface {
	return certificates.New(idleFactory{}, "", nil)
}

type idleFactory struct{}

func (idleFactory) Start(<-chan struct{})             {}
func (idleFactory) InformerName() *cache.InformerName { return nil }

func (idleFactory) InformerFor(runtime.Object, internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return idleInformer{}
}

// idleInformer never has an object. Only what the graph asks of an informer is there.
type idleInformer struct {
	cache.SharedIndexInformer
}

func (idleInformer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return idleHandler{}, nil
}

// idleHandler has seen all there is, so that nobody waits for it.
type idleHandler struct {
	cache.ResourceEventHandlerRegistration
}

func (idleHandler) HasSynced() bool { return true }
