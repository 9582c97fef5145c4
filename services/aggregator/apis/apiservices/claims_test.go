// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

var (
	coreServes = []schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "future.example.org", Version: "v1"}}
	flunders   = schema.GroupVersion{Group: "wardle.example.com", Version: "v1"}
)

// registered returns the backends of the registered group-versions.
func (r *recorder) registered() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]string{}
	for name, service := range r.synced {
		found[name] = "local"
		if ref := service.Spec.Service; ref != nil {
			found[name] = ref.Name
		}
	}
	return found
}

// stored is an APIService that an aggregator has registered.
func stored(gv schema.GroupVersion, backend string) *apiregistrationv1.APIService {
	service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{
		Name: nameOf(gv), Labels: map[string]string{autoregister.AutoRegisterManagedLabel: "true"},
	}}
	service.Spec.Group, service.Spec.Version = gv.Group, gv.Version
	if backend != "" {
		service.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "tripod-system", Name: backend}
	}
	return service
}

func TestAdditionalBackendsAreAlwaysNamed(t *testing.T) {
	registration := newRecorder()
	r := newRegistrar(t, registration, false)
	r.Set("core", coreServes)
	r.Set("extensions", custom("v1"))
	r.Set("wardle", []schema.GroupVersion{flunders})
	assert.Equal(t, map[string]string{"v1.example.com": "local", "v1.wardle.example.com": "wardle"}, registration.registered())
	assert.Equal(t, crdPriority.Group, registration.synced["v1.wardle.example.com"].Spec.GroupPriorityMinimum)
}

func TestServicesTakeNoGroupFromCore(t *testing.T) {
	claims := []schema.GroupVersion{
		flunders, {Version: "v1"}, {Version: "v2"}, {Group: "apps", Version: "v1"}, {Group: "apps", Version: "v9"}, {Group: "future.example.org", Version: "v2"},
		{Group: "batch", Version: "v1"}, {Group: "apiextensions.k8s.io", Version: "v1"}, {Group: "apiregistration.k8s.io", Version: "v1"}, {Group: "a/b", Version: "v1"},
	}
	core := func(r *Registrar) { r.Set("core", coreServes) }
	wardle := func(r *Registrar) { r.Set("wardle", claims) }
	for name, order := range map[string][]func(*Registrar){"core first": {core, wardle}, "the service first": {wardle, core}} {
		t.Run(name, func(t *testing.T) {
			registration := newRecorder()
			r := newRegistrar(t, registration, true)
			for _, hear := range order {
				hear(r)
			}
			assert.Equal(t, map[string]string{"v1.wardle.example.com": "wardle"}, registration.registered())
			for name, service := range registration.onStart {
				assert.Equal(t, "core", service.Spec.Service.Name, "%s names", name)
			}
		})
	}
}

func TestClientsFindAGroupVersionOfCoreOnceThisAggregatorKnowsWhoServesIt(t *testing.T) {
	migrations := schema.GroupVersion{Group: "storagemigration.k8s.io", Version: "v1beta1"}
	elsewhere := stored(migrations, "core")
	elsewhere.Spec.Service.Namespace = "default"
	r := newRegistrar(t, newRecorder(), true)
	shown := func(want bool, services ...*apiregistrationv1.APIService) {
		t.Helper()
		for _, service := range services {
			assert.Equal(t, want, r.Serves(service), "%s of %v", service.Name, service.Spec.Service)
		}
	}
	always := []*apiregistrationv1.APIService{elsewhere, stored(crdGroupVersion, ""), stored(flunders, ""), stored(flunders, "wardle")}
	ofCore := []*apiregistrationv1.APIService{stored(migrations, ""), stored(migrations, "core")}
	shown(true, append(ofCore, always...)...) // core has not reported yet
	r.Set("core", coreServes)
	shown(true, append(ofCore, always...)...) // a definition may have its group
	for _, backend := range r.Backends[1:] {
		r.Set(backend, nil)
	}
	shown(true, always...)
	shown(false, ofCore...)
	r.Set("extensions", []schema.GroupVersion{migrations})
	shown(true, append(ofCore, always...)...)
	r.Set("extensions", nil)
	shown(false, ofCore...)
	r.Set("core", append(slices.Clone(coreServes), migrations))
	shown(true, append(ofCore, always...)...)
}

func TestAServiceHasOnlyTheGroupsThatItIsGiven(t *testing.T) {
	other := schema.GroupVersion{Group: "other.example.com", Version: "v1"}
	registration := newRecorder()
	r := newRegistrar(t, registration, true)
	r.Groups = map[string][]string{"wardle": {flunders.Group}}
	r.Set("core", coreServes)
	r.Set("wardle", []schema.GroupVersion{flunders, other})
	assert.Equal(t, map[string]string{nameOf(flunders): "wardle"}, registration.registered())
	r.Set("search", []schema.GroupVersion{other})
	assert.Equal(t, map[string]string{nameOf(flunders): "wardle", nameOf(other): "search"}, registration.registered())
}

// TestAServiceThatGetsAnotherGroupKeepsIt has an aggregator that does not know yet what another one allows.
func TestAServiceThatGetsAnotherGroupKeepsIt(t *testing.T) {
	fresh, old := stored(flunders, "wardle"), stored(flunders, "wardle")
	fresh.CreationTimestamp = metav1.Now()
	old.CreationTimestamp = metav1.NewTime(time.Now().Add(-2 * strangersMayStay))
	for service, stays := range map[*apiregistrationv1.APIService]bool{fresh: true, old: false} {
		r := newRegistrar(t, newRecorder(), true, service)
		r.Groups = map[string][]string{"wardle": {"other.example.com"}}
		r.Set("core", coreServes)
		r.Set("wardle", []schema.GroupVersion{flunders})
		assert.Equal(t, !stays, r.mayDelete(service.Name))
	}
}

func TestAGroupVersionStaysWithTheFirstWhoHasIt(t *testing.T) {
	served := []schema.GroupVersion{flunders}
	type claim struct {
		backend string
		served  []schema.GroupVersion
		want    string
	}
	for name, test := range map[string]struct {
		stored string
		claims []claim
	}{
		"the first keeps it": {claims: []claim{
			{"wardle", served, "wardle"}, {"extensions", served, "wardle"}, {"search", served, "wardle"}, {"wardle", served, "wardle"},
		}},
		"the next gets it when the first has it no longer": {claims: []claim{
			{"wardle", served, "wardle"}, {"extensions", served, "wardle"}, {"wardle", nil, "extensions"}, {"wardle", served, "extensions"}, {"extensions", nil, "wardle"},
			{"wardle", nil, ""},
		}},
		"what is stored counts as the first": {stored: "wardle", claims: []claim{
			{"extensions", served, "wardle"}, {"wardle", served, "wardle"},
		}},
		"what is stored of a backend that has it no longer does not": {stored: "wardle", claims: []claim{
			{"extensions", served, "wardle"}, {"wardle", nil, "extensions"},
		}},
		"what is stored of a backend that never reports stays": {stored: "wardle", claims: []claim{
			{"extensions", nil, "wardle"}, {"search", nil, "wardle"},
		}},
		"what is stored of a backend that is not configured goes": {stored: "gone", claims: []claim{
			{"extensions", nil, ""}, {"search", served, "search"},
		}},
		"nor does what is stored of extensions": {stored: "extensions", claims: []claim{{"extensions", nil, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			var before []*apiregistrationv1.APIService
			if test.stored != "" {
				before = append(before, stored(flunders, test.stored))
			}
			registration := newRecorder()
			r := newRegistrar(t, registration, true, before...)
			r.Set("core", coreServes)
			for i, claim := range test.claims {
				r.Set(claim.backend, claim.served)
				assert.Equal(t, claim.want, registration.registered()[nameOf(flunders)], "after step %d", i)
			}
		})
	}
}

func TestRunWaitsForNoAdditionalBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		registration := newRecorder()
		r := newRegistrar(t, registration, true, stored(flunders, "wardle"))
		go r.Run(stop)
		r.Set("core", coreServes)
		r.Set("extensions", nil)
		<-registration.running
		assert.Equal(t, map[string]string{"v1.wardle.example.com": "wardle"}, registration.registered())
	})
}

func newPartitioned(t *testing.T, registration *recorder, stored ...*apiregistrationv1.APIService) *Registrar {
	t.Helper()
	r := newRegistrar(t, registration, true, stored...)
	r.Backends = append(r.Backends, "extensions-big", "extensions-small")
	r.Groups = map[string][]string{"extensions-big": {"*.example.com"}, "extensions-small": {"small.example.org"}}
	r.Set("core", coreServes)
	return r
}

func TestAPartitionHasTheGroupsOfItsPatterns(t *testing.T) {
	registration := newRecorder()
	r := newPartitioned(t, registration)
	small, foreign := schema.GroupVersion{Group: "small.example.org", Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v1"}
	r.Set("extensions", nil)
	r.Set("extensions-big", []schema.GroupVersion{flunders, small, foreign})
	assert.Equal(t, map[string]string{nameOf(flunders): "extensions-big"}, registration.registered())
	r.Set("extensions-small", []schema.GroupVersion{small})
	assert.Equal(t, map[string]string{nameOf(flunders): "extensions-big", nameOf(small): "extensions-small"}, registration.registered())
}

// TestWithoutServicesTheListSaysWhoHasAGroup, because an APIService of kube-apiserver names no backend.
func TestWithoutServicesTheListSaysWhoHasAGroup(t *testing.T) {
	registration := newRecorder()
	r := newPartitioned(t, registration, stored(flunders, ""))
	r.ServiceForm = false
	r.Set("extensions", custom("v1"))
	assert.Equal(t, map[string]string{"v1.example.com": "local", nameOf(flunders): "local"}, registration.registered(), "the partition has not reported")
	assert.False(t, r.mayDelete(nameOf(flunders)))
	r.Set("extensions-big", []schema.GroupVersion{flunders})
	assert.Equal(t, map[string]string{"v1.example.com": "local", nameOf(flunders): "local"}, registration.registered())
	_, conflict := r.Conflict(stored(flunders, ""))
	assert.True(t, conflict, "it is certain that there is none")
	r.Set("extensions", append(custom("v1"), flunders)) // which has an old configuration
	message, _ := r.Conflict(stored(flunders, ""))
	assert.Equal(t, "extensions-big serves wardle.example.com/v1, which is also claimed by extensions; requests go to extensions-big", message)
	r.Set("extensions", custom("v1"))
	r.Set("extensions-big", nil)
	assert.Equal(t, map[string]string{"v1.example.com": "local"}, registration.registered(), "no backend has it any more")
	assert.True(t, r.mayDelete(nameOf(flunders)))
}

func TestAGroupMovesToItsPartition(t *testing.T) {
	for name, partitionFirst := range map[string]bool{"the partition reports first": true, "replicas of extensions are new first": false} {
		t.Run(name, func(t *testing.T) {
			registration := newRecorder()
			r := newPartitioned(t, registration, stored(flunders, "extensions"))
			r.Set("extensions", []schema.GroupVersion{flunders})
			assert.Equal(t, map[string]string{nameOf(flunders): "extensions"}, registration.registered(), "the first registration wins")
			if partitionFirst {
				r.Set("extensions-big", []schema.GroupVersion{flunders})
				message, _ := r.Conflict(stored(flunders, "extensions"))
				assert.Equal(t, "extensions serves wardle.example.com/v1, which is also claimed by extensions-big; requests go to extensions", message)
			}
			r.Set("extensions", nil)
			assert.Equal(t, map[string]string{nameOf(flunders): "extensions-big"}, registration.registered(), "even before the partition reports")
			r.Set("extensions-big", []schema.GroupVersion{flunders})
			assert.Equal(t, map[string]string{nameOf(flunders): "extensions-big"}, registration.registered())
		})
	}
}

func TestANewGroupIsThatOfItsPartition(t *testing.T) {
	registration := newRecorder()
	r := newPartitioned(t, registration)
	for _, backend := range []string{"extensions-big", "extensions"} { // which has an old configuration
		r.Set(backend, []schema.GroupVersion{flunders})
	}
	assert.Equal(t, map[string]string{nameOf(flunders): "extensions-big"}, registration.registered())
	r.Set("extensions-big", nil)
	assert.Equal(t, map[string]string{nameOf(flunders): "extensions"}, registration.registered(), "the partition does not have it any more")
}

func TestConflicts(t *testing.T) {
	registration := newRecorder()
	r := newRegistrar(t, registration, true, stored(flunders, "wardle"))
	r.Set("core", coreServes)
	r.Set("extensions", nil)
	r.Set("search", nil)
	service := stored(flunders, "search")
	for message, want := range map[string]bool{"": true, "search serves it, which is also claimed by wardle; ...": false, "search ... by extensions; ...": true} {
		service.Status.Conditions = nil
		if message != "" {
			v := ofClaims(message)
			v.applyTo(service)
		}
		_, certain := r.Conflict(service)
		assert.Equal(t, want, certain, "before wardle has reported, with %q", message)
	}

	r.Set("wardle", []schema.GroupVersion{flunders, {Group: "apps", Version: "v1"}})
	r.Set("extensions", []schema.GroupVersion{flunders})
	r.Set("search", []schema.GroupVersion{flunders})
	thirdParty := stored(flunders, "third")
	thirdParty.Spec.Service.Namespace = "default"
	for name, test := range map[string]struct {
		service *apiregistrationv1.APIService
		want    string
	}{
		"several":          {stored(flunders, "wardle"), "wardle serves wardle.example.com/v1, which is also claimed by extensions and search; requests go to wardle"},
		"of a third party": {thirdParty, "the Service default/third serves wardle.example.com/v1, which is also claimed by search and wardle; requests go to the Service default/third"},
		"of core":          {stored(schema.GroupVersion{Group: "apps", Version: "v1"}, "core"), ""},
		"nobody's":         {stored(schema.GroupVersion{Group: "other.example.com", Version: "v1"}, "wardle"), ""},
	} {
		message, certain := r.Conflict(test.service)
		assert.True(t, certain, name)
		assert.Equal(t, test.want, message, name)
	}
}

// TestConflictsAreCounted has two aggregators receive the claims of two backends in opposite order.
func TestConflictsAreCounted(t *testing.T) {
	ships := schema.GroupVersion{Group: "ships.example.com", Version: "v1"}
	thirdParty := stored(ships, "third")
	thirdParty.Spec.Service.Namespace = "default"
	r := newRegistrar(t, newRecorder(), true, stored(flunders, "wardle"), thirdParty)
	registry := metrics.NewKubeRegistry()
	require.NoError(t, r.RegisterMetrics(registry.CustomRegister))
	const header = `
		# HELP tripod_apiservice_conflicts [ALPHA] APIServices of a backend that another backend claims, too. An aggregated API server is (aggregated).
		# TYPE tripod_apiservice_conflicts gauge
	`
	expect := func(series string) {
		t.Helper()
		if series != "" {
			series = header + series
		}
		assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(series), "tripod_apiservice_conflicts"))
	}
	r.Set("core", coreServes)
	r.Set("wardle", []schema.GroupVersion{flunders})
	r.Set("extensions", []schema.GroupVersion{ships}) // by the spec that the user gave the APIService
	expect("")
	r.Set("search", []schema.GroupVersion{flunders, ships})
	expect(`tripod_apiservice_conflicts{backend="(aggregated)",claimant="search"} 1
		tripod_apiservice_conflicts{backend="wardle",claimant="search"} 1
	`)
	r.Set("search", nil)
	expect("")
}

func TestAggregatorsAgreeWhoHasAGroupVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		client := fake.NewClientset()
		start := func() *Registrar {
			factory := informers.NewSharedInformerFactory(client, 0)
			services := factory.Apiregistration().V1().APIServices()
			r, err := NewRegistrar(RegistrarConfig{
				Backends: routing.Backends{"core", "extensions", "wardle"}, ServiceForm: true, Services: services, Client: client.ApiregistrationV1(),
				Register: func(client apiregistrationclient.APIServicesGetter) AutoRegistration {
					return autoregister.NewAutoRegisterController(services, client)
				},
			})
			require.NoError(t, err)
			r.Set("core", coreServes)
			r.Set("extensions", nil)
			factory.Start(ctx.Done())
			go r.Run(ctx.Done())
			return r
		}
		one, other := start(), start()
		settle := func() string {
			time.Sleep(time.Minute)
			synctest.Wait()
			service, err := client.ApiregistrationV1().APIServices().Get(ctx, nameOf(flunders), metav1.GetOptions{})
			require.NoError(t, err)
			return service.Spec.Service.Name
		}
		served := []schema.GroupVersion{flunders}
		one.Set("wardle", served)
		other.Set("extensions", served)
		one.Set("extensions", served)
		other.Set("wardle", served)
		owner := settle()
		for _, action := range client.Actions() {
			update, ok := action.(clienttesting.UpdateAction)
			assert.False(t, ok && action.GetVerb() == "update", "an aggregator has contradicted the other: %v", update)
		}
		next := map[string]string{"wardle": "extensions", "extensions": "wardle"}[owner]
		one.Set(owner, nil)
		other.Set(owner, nil)
		assert.Equal(t, next, settle(), "when %s has it no longer, it goes to", owner)
	})
}

// TestWhatAnotherAggregatorRegistersStays: this one has no report of its backend, or does not have the backend.
func TestWhatAnotherAggregatorRegistersStays(t *testing.T) {
	recent, old := stored(flunders, "gone"), stored(schema.GroupVersion{Group: "old.example.com", Version: "v1"}, "gone")
	recent.CreationTimestamp, old.CreationTimestamp = metav1.Now(), metav1.NewTime(time.Now().Add(-time.Hour))
	unheard := stored(schema.GroupVersion{Group: "unheard.example.com", Version: "v1"}, "wardle")
	r := newRegistrar(t, newRecorder(), true, recent, old, unheard)
	r.Set("core", coreServes)
	r.Set("extensions", nil)
	for service, want := range map[*apiregistrationv1.APIService]bool{recent: false, old: true, unheard: false} {
		assert.Equal(t, want, r.mayDelete(service.Name), "%s may be deleted", service.Name)
	}
	r.Set("wardle", nil)
	assert.True(t, r.mayDelete(unheard.Name), "it may be deleted when its backend has reported")
}
