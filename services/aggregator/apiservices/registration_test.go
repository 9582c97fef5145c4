// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
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

func crd(name, group string, versions ...CRDVersion) *CRD {
	return &CRD{
		TypeMeta:   metav1.TypeMeta{Kind: "CustomResourceDefinition", APIVersion: crdGroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec:       CRDSpec{Group: group, Versions: versions},
	}
}

func storeOf(crds ...*CRD) cache.SharedIndexInformer {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &CRD{}, 0, cache.Indexers{})
	for _, crd := range crds {
		_ = informer.GetStore().Add(crd) // the key function knows a CRD
	}
	return informer
}

func TestCRDVersionsAreRegisteredAsLongAsOneCRDServesThem(t *testing.T) {
	foos := crd("foos.example.com", "example.com", CRDVersion{"v1", true}, CRDVersion{"v1beta1", false})
	bars := crd("bars.example.com", "example.com", CRDVersion{"v1", true})
	registration := newRecorder()
	crds := storeOf(foos, bars)
	r := NewRegistrar(registration, true, crds)
	r.syncCRD(foos)
	r.syncCRD(bars)
	if diff := cmp.Diff([]string{"v1.example.com"}, registration.names()); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}

	if err := crds.GetStore().Delete(foos); err != nil {
		t.Fatal(err)
	}
	r.syncCRD(cache.DeletedFinalStateUnknown{Key: foos.Name, Obj: foos})
	if diff := cmp.Diff([]string{"v1.example.com"}, registration.names()); diff != "" {
		t.Errorf("with bars left, registered (-want +got):\n%s", diff)
	}
	if err := crds.GetStore().Delete(bars); err != nil {
		t.Fatal(err)
	}
	r.syncCRD(bars)
	if names := registration.names(); len(names) != 0 {
		t.Errorf("without a CRD, registered: %v", names)
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
			got := NewRegistrar(newRecorder(), test.serviceForm, storeOf()).apiService(gv, "core")
			want := apiregistrationv1.APIServiceSpec{
				Group: "apps", Version: "v1", GroupPriorityMinimum: 17800, VersionPriority: 15, Service: test.want,
			}
			if diff := cmp.Diff(want, got.Spec); diff != "" || got.Name != "v1.apps" {
				t.Errorf("%s (-want +got):\n%s", got.Name, diff)
			}
		})
	}
}

func TestNothingIsRegisteredBeforeCoreAndAllCRDsWereHeard(t *testing.T) {
	list := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.RawQuery, "sendInitialEvents") {
			status := apierrors.NewInvalid(schema.GroupKind{}, "watch", nil).Status()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(status.Code))
			_ = json.NewEncoder(w).Encode(status) // the informer has its own error
			return
		}
		if strings.Contains(req.URL.RawQuery, "watch=") {
			<-req.Context().Done()
			return
		}
		<-list
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(CRDList{ // the informer has its own error
			TypeMeta: metav1.TypeMeta{Kind: "CustomResourceDefinitionList", APIVersion: crdGroupVersion.String()},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items:    []CRD{*crd("foos.example.com", "example.com", CRDVersion{"v1", true})},
		})
	}))
	defer server.Close()
	crds, err := NewCRDInformer(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { crds.Run(stop) })
	registration := newRecorder()
	r := NewRegistrar(registration, true, crds)
	running.Go(func() { r.Run(stop) })
	defer running.Wait()
	defer close(stop)
	defer server.CloseClientConnections()

	r.SetCore([]schema.GroupVersion{{Group: "apps", Version: "v1"}, {Group: "unheard.example.com", Version: "v1"}})
	select {
	case <-registration.running:
		t.Error("registration runs before the CRDs were listed: it would delete their APIServices")
	default:
	}
	close(list)
	<-registration.running
	registration.mu.Lock()
	defer registration.mu.Unlock()
	if diff := cmp.Diff([]string{"v1.apiextensions.k8s.io", "v1.apps"}, slices.Sorted(maps.Keys(registration.onStart))); diff != "" {
		t.Errorf("registered on start (-want +got):\n%s", diff)
	}
	if _, ok := registration.synced["v1.example.com"]; !ok {
		t.Error("the CRD's group-version is not registered")
	}
}
