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

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
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

func custom(versions ...string) []schema.GroupVersion {
	all := []schema.GroupVersion{{Group: "apiextensions.k8s.io", Version: "v1"}}
	for _, version := range versions {
		all = append(all, schema.GroupVersion{Group: "example.com", Version: version})
	}
	return all
}

func TestGroupVersionsOfCRDsAreRegisteredAsLongAsTheyAreServed(t *testing.T) {
	registration := newRecorder()
	r := NewRegistrar(registration, true)
	r.SetCore(nil)
	for _, step := range []struct{ served, want []string }{
		{[]string{"v1", "v1beta1"}, []string{"v1.example.com", "v1beta1.example.com"}},
		{[]string{"v1"}, []string{"v1.example.com"}},
		{[]string{"v1", "v2"}, []string{"v1.example.com", "v2.example.com"}},
		{nil, nil},
	} {
		r.SetExtensions(custom(step.served...))
		assert.Empty(t, cmp.Diff(step.want, registration.names()), "with %q served, registered", step.served)
	}
}

func TestCRDsTakeNoGroupVersionFromCore(t *testing.T) {
	rbac := func(version string) schema.GroupVersion {
		return schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: version}
	}
	core := func(r *Registrar) { r.SetCore([]schema.GroupVersion{{Version: "v1"}, rbac("v1")}) }
	extensions := func(r *Registrar) {
		r.SetExtensions(append(custom("v1"), schema.GroupVersion{Version: "v1"}, rbac("v1"), rbac("v2"),
			schema.GroupVersion{Group: "apiregistration.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "a/b", Version: "v1"},
			schema.GroupVersion{Group: "internal.apiserver.k8s.io", Version: "v1alpha1"}))
	}
	for name, order := range map[string][]func(*Registrar){"core first": {core, extensions}, "extensions first": {extensions, core}} {
		t.Run(name, func(t *testing.T) {
			registration := newRecorder()
			r := NewRegistrar(registration, true)
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
			got := NewRegistrar(newRecorder(), test.serviceForm).apiService(gv, "core")
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
		r.SetCore([]schema.GroupVersion{{Group: "apps", Version: "v1"}, {Group: "unheard.example.com", Version: "v1"}})
	}
	extensions := func(r *Registrar) { r.SetExtensions(custom("v1")) }
	for name, order := range map[string][]func(*Registrar){"core first": {core, extensions}, "extensions first": {extensions, core}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := make(chan struct{})
				defer close(stop)
				registration := newRecorder()
				r := NewRegistrar(registration, true)
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
