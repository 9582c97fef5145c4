// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Plugin is an admission plugin.
type Plugin struct {
	// Name is the name of the plugin for --disable-admission-plugins.
	Name string
	// New makes the plugin. It implements admission.MutationInterface, admission.ValidationInterface or both.
	New func(*Environment) (admission.Interface, error)
}

// ReadyCheck is a condition without which a replica cannot serve, such as that its database answers. While a client asks, as the
// aggregators do, it runs once in half a second at most.
type ReadyCheck struct {
	// Name is the name of the check in /readyz: lower case, with "-".
	Name string
	// Check returns what is wrong. It heeds the context, which ends after a second. Callers see only the name: the log has the error.
	Check func(context.Context, *Environment) error
}

// Environment is what the parts of a service use while it runs.
type Environment struct {
	// Informers follow Kubernetes' own objects. What the service may follow, RBAC says: behind Tripod, it is the user system:tripod:NAME.
	Informers informers.SharedInformerFactory
	// Kubernetes is the API of the cluster, in the name of the service.
	Kubernetes kubernetes.Interface
	// Cluster is the configuration of clients of all APIs of the cluster, in the name of the service.
	Cluster *rest.Config
	// Self is the configuration of clients of this replica itself. They may do everything.
	Self *rest.Config

	types *types

	mu sync.Mutex
	// followers run once the service serves.
	followers []cache.SharedIndexInformer
	running   bool
}

// Followed are the objects of one resource of the service, as they are now.
type Followed[T runtime.Object] struct{ informer cache.SharedIndexInformer }

// List returns the objects in the order of their keys. Callers must not change them.
func (f *Followed[T]) List() []T {
	keys := f.informer.GetStore().ListKeys()
	slices.Sort(keys)
	var all []T
	for _, key := range keys {
		if object, ok, _ := f.informer.GetStore().GetByKey(key); ok {
			all = append(all, object.(T))
		}
	}
	return all
}

// HasSynced reports whether all objects were received once.
func (f *Followed[T]) HasSynced() bool { return f.informer.HasSynced() }

// Informer returns the informer, for handlers of events.
func (f *Followed[T]) Informer() cache.SharedIndexInformer { return f.informer }

// Follow follows the objects of a resource of the service, in all namespaces. T is a pointer to the type of a version that serves the
// resource, and resource is the plural. Only what makes plugins, hooks and storages may call it.
func Follow[T runtime.Object](e *Environment, resource string) (*Followed[T], error) {
	gvks, _, err := e.types.versioned.ObjectKinds(newOf[T]())
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", resource, err)
	}
	config := rest.CopyConfig(e.Self)
	gv := gvks[0].GroupVersion()
	config.APIPath, config.GroupVersion = "/apis", &gv
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.NegotiatedSerializer = e.types.codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", resource, err)
	}
	informer := cache.NewSharedIndexInformer(
		cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything()),
		newOf[T](), 10*time.Minute, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return nil, fmt.Errorf("follow %s: the service already serves", resource)
	}
	e.followers = append(e.followers, informer)
	return &Followed[T]{informer}, nil
}

// install adds the hooks and checks of a service to its server.
func (e *Environment) install(server *genericapiserver.GenericAPIServer, hooks *hooks, checks []ReadyCheck) error {
	err := server.AddPostStartHook("follow-own-objects", func(hook genericapiserver.PostStartHookContext) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.running = true
		for _, follower := range e.followers {
			hooks.group.Go(func() { follower.RunWithContext(hook) })
		}
		return nil
	})
	for _, h := range hooks.all {
		if err == nil {
			err = server.AddPostStartHook(h.Name, func(hook genericapiserver.PostStartHookContext) error {
				hooks.start(hook, h, e)
				return nil
			})
		}
	}
	for _, c := range checks {
		if err == nil {
			err = server.AddReadyzChecks(newShared(c, e))
		}
	}
	return err
}
