// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"net/http"
	"reflect"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/certificates"
	coreinformers "k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/hop/link"
)

// factory makes the informers that authorizers of kube-apiserver ask for: those of RBAC objects follow core, and those that
// would fill the graph of mode Node are idle. No authorizer asks for anything else, which the embedded factory would have
// to answer: it is nil.
type factory struct {
	informers.SharedInformerFactory
	client    kubernetes.Interface
	followers map[reflect.Type]*follower
}

func newFactory(core *rest.Config) (*factory, error) {
	core = rest.CopyConfig(core)
	// Followers of core go on as soon as it is back. What is known of its policy stays in force until then.
	core.Wrap(func(next http.RoundTripper) http.RoundTripper { return link.Until(next, link.WhileReading) })
	client, err := kubernetes.NewForConfig(core)
	if err != nil {
		return nil, err
	}
	return &factory{client: client, followers: map[reflect.Type]*follower{}}, nil
}

func (f *factory) Rbac() rbac.Interface                 { return rbac.New(f, "", nil) }
func (f *factory) Core() coreinformers.Interface        { return coreinformers.New(f, "", nil) }
func (f *factory) Storage() storage.Interface           { return storage.New(f, "", nil) }
func (f *factory) Resource() resource.Interface         { return resource.New(f, "", nil) }
func (f *factory) Certificates() certificates.Interface { return certificates.New(f, "", nil) }

// resources are those of RBAC objects.
var resources = map[reflect.Type]string{
	reflect.TypeFor[*rbacv1.Role]():               "roles",
	reflect.TypeFor[*rbacv1.RoleBinding]():        "rolebindings",
	reflect.TypeFor[*rbacv1.ClusterRole]():        "clusterroles",
	reflect.TypeFor[*rbacv1.ClusterRoleBinding](): "clusterrolebindings",
}

// InformerFor implements internalinterfaces.SharedInformerFactory.
func (f *factory) InformerFor(object runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(object)
	name, followed := resources[kind]
	if !followed {
		return idleInformer{}
	}
	if _, exists := f.followers[kind]; !exists {
		f.followers[kind] = newFollower(f.client, name, object)
	}
	return f.followers[kind]
}

// synced reports whether all followers have received their objects.
func (f *factory) synced() bool {
	for _, follower := range f.followers {
		if !follower.HasSynced() {
			return false
		}
	}
	return true
}

// run runs the followers until the context ends.
func (f *factory) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, follower := range f.followers {
		running.Go(func() { follower.reflector.RunWithContext(ctx) })
	}
	running.Wait()
}

// idleInformer never has an object. Only what the graph asks of an informer is there.
type idleInformer struct {
	cache.SharedIndexInformer
}

func (idleInformer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return idleHandler{}, nil
}

// idleHandler has seen all there is, so that no goroutine waits for it.
type idleHandler struct {
	cache.ResourceEventHandlerRegistration
}

func (idleHandler) HasSynced() bool { return true }
