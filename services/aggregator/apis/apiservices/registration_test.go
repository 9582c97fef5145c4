// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	informersv1 "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// recorder stands for kube-aggregator's auto-registration controller.
type recorder struct {
	mu      sync.Mutex
	onStart map[string]*apiregistrationv1.APIService
	synced  map[string]*apiregistrationv1.APIService
	running chan struct{}
}

func newRecorder() *recorder {
	return &recorder{
		onStart: map[string]*apiregistrationv1.APIService{},
		synced:  map[string]*apiregistrationv1.APIService{},
		running: make(chan struct{}),
	}
}

func (r *recorder) AddAPIServiceToSyncOnStart(in *apiregistrationv1.APIService) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onStart[in.Name] = in
}

func (r *recorder) AddAPIServiceToSync(in *apiregistrationv1.APIService) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced[in.Name] = in
}

func (r *recorder) RemoveAPIServiceToSync(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.synced, name)
}

func (r *recorder) Run(_ int, stop <-chan struct{}) {
	close(r.running)
	<-stop
}

func (r *recorder) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.synced))
}

// newRegistrar returns a registrar of core, extensions and two additional backends, which has seen what is stored.
func newRegistrar(t testing.TB, registration AutoRegistration, serviceForm bool, stored ...*apiregistrationv1.APIService) *Registrar {
	t.Helper()
	client := fake.NewSimpleClientset()
	services := informers.NewSharedInformerFactory(client, 0).Apiregistration().V1().APIServices()
	for _, service := range stored {
		require.NoError(t, services.Informer().GetStore().Add(service))
	}
	r, err := NewRegistrar(RegistrarConfig{
		Backends: routing.Backends{"core", "extensions", "search", "wardle"}, ServiceForm: serviceForm, Services: synced{services}, Client: client.ApiregistrationV1(),
		Register: func(apiregistrationclient.APIServicesGetter) AutoRegistration { return registration },
	})
	require.NoError(t, err)
	return r
}

// synced is an informer that has seen all there is.
type synced struct{ informersv1.APIServiceInformer }

func (s synced) Informer() cache.SharedIndexInformer {
	return syncedInformer{s.APIServiceInformer.Informer()}
}

type syncedInformer struct{ cache.SharedIndexInformer }

func (syncedInformer) HasSynced() bool { return true }

func custom(versions ...string) []schema.GroupVersion {
	all := []schema.GroupVersion{{Group: "apiextensions.k8s.io", Version: "v1"}}
	for _, version := range versions {
		all = append(all, schema.GroupVersion{Group: "example.com", Version: version})
	}
	return all
}

func TestGroupVersionsOfCRDsAreRegisteredAsLongAsTheyAreServed(t *testing.T) {
	registration := newRecorder()
	r := newRegistrar(t, registration, true)
	r.Set("core", nil)
	for _, step := range []struct{ served, want []string }{
		{[]string{"v1", "v1beta1"}, []string{"v1.example.com", "v1beta1.example.com"}},
		{[]string{"v1"}, []string{"v1.example.com"}},
		{[]string{"v1", "v2"}, []string{"v1.example.com", "v2.example.com"}},
		{nil, nil},
	} {
		r.Set("extensions", custom(step.served...))
		assert.Empty(t, cmp.Diff(step.want, registration.names()), "with %q served, registered", step.served)
	}
}

func TestCRDsTakeNoGroupVersionFromCore(t *testing.T) {
	rbac := func(version string) schema.GroupVersion {
		return schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: version}
	}
	core := func(r *Registrar) { r.Set("core", []schema.GroupVersion{{Version: "v1"}, rbac("v1")}) }
	extensions := func(r *Registrar) {
		r.Set("extensions", append(custom("v1"), schema.GroupVersion{Version: "v1"}, rbac("v1"), rbac("v2"),
			schema.GroupVersion{Group: "apiregistration.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "a/b", Version: "v1"},
			schema.GroupVersion{Group: "internal.apiserver.k8s.io", Version: "v1alpha1"}))
	}
	for name, order := range map[string][]func(*Registrar){"core first": {core, extensions}, "extensions first": {extensions, core}} {
		t.Run(name, func(t *testing.T) {
			registration := newRecorder()
			r := newRegistrar(t, registration, true)
			for _, hear := range order {
				hear(r)
			}
			for name, server := range map[string]string{"v1.": "core", "v1.rbac.authorization.k8s.io": "core", "v1.apiextensions.k8s.io": "extensions"} {
				assert.Equal(t, server, registration.onStart[name].Spec.Service.Name, "%s names", name)
			}
			want := []string{"v1.example.com", "v1alpha1.internal.apiserver.k8s.io", "v2.rbac.authorization.k8s.io"}
			assert.Equal(t, want, registration.names(), "registered for CRDs")
			assert.Nil(t, registration.synced["v2.rbac.authorization.k8s.io"].Spec.Service, "an APIService in a group of core names")
			// A disabled group is a CRD's group like any other.
			disabled := registration.synced["v1alpha1.internal.apiserver.k8s.io"].Spec
			assert.Equal(t, crdPriority, Priority{disabled.GroupPriorityMinimum, disabled.VersionPriority})
			assert.Equal(t, "extensions", disabled.Service.Name)
		})
	}
}

func TestAPIServicesHaveTheFormThatIsAskedFor(t *testing.T) {
	gv := schema.GroupVersion{Group: "apps", Version: "v1"}
	port := int32(443)
	for name, test := range map[string]struct {
		serviceForm bool
		want        *apiregistrationv1.ServiceReference
	}{
		"service": {true, &apiregistrationv1.ServiceReference{Namespace: "tripod-system", Name: "core", Port: &port}},
		"local":   {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := newRegistrar(t, newRecorder(), test.serviceForm).apiService(gv, "core")
			want := apiregistrationv1.APIServiceSpec{
				Group: "apps", Version: "v1", GroupPriorityMinimum: 17800, VersionPriority: 15, Service: test.want,
			}
			if diff := cmp.Diff(want, got.Spec); diff != "" || got.Name != "v1.apps" {
				t.Errorf("%s (-want +got):\n%s", got.Name, diff)
			}
		})
	}
}

func TestNothingIsRegisteredBeforeBothWereHeard(t *testing.T) {
	core := func(r *Registrar) {
		r.Set("core", []schema.GroupVersion{{Group: "apps", Version: "v1"}, {Group: "unheard.example.com", Version: "v1"}})
	}
	extensions := func(r *Registrar) { r.Set("extensions", custom("v1")) }
	for name, order := range map[string][]func(*Registrar){"core first": {core, extensions}, "extensions first": {extensions, core}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := make(chan struct{})
				defer close(stop)
				registration := newRecorder()
				r := newRegistrar(t, registration, true)
				go r.Run(stop)
				order[0](r)
				synctest.Wait()
				select {
				case <-registration.running:
					t.Error("registration runs before everything was heard: it would delete APIServices")
				default:
				}
				order[1](r)
				<-registration.running
				if diff := cmp.Diff([]string{"v1.apiextensions.k8s.io", "v1.apps"}, slices.Sorted(maps.Keys(registration.onStart))); diff != "" {
					t.Errorf("registered on start (-want +got):\n%s", diff)
				}
				assert.Empty(t, cmp.Diff([]string{"v1.example.com"}, registration.names()), "kept registered")
			})
		})
	}
}
