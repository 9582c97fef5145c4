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
	for _, step := range []struct{ served, want []string }{
		{[]string{"v1", "v1beta1"}, []string{"v1.example.com", "v1beta1.example.com"}},
		{[]string{"v1"}, []string{"v1.example.com"}},
		{[]string{"v1", "v2"}, []string{"v1.example.com", "v2.example.com"}},
		{nil, nil},
	} {
		r.SetExtensions(custom(step.served...))
		if diff := cmp.Diff(step.want, registration.names()); diff != "" {
			t.Errorf("with %q served, registered (-want +got):\n%s", step.served, diff)
		}
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
				if diff := cmp.Diff([]string{"v1.example.com"}, registration.names()); diff != "" {
					t.Errorf("kept registered (-want +got):\n%s", diff)
				}
			})
		})
	}
}
