// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func builtin(group string) bool { return group == "" || group == "apps" }

func apiService(group, version, namespace, name string) *apiregistrationv1.APIService {
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version + "." + group},
		Spec:       apiregistrationv1.APIServiceSpec{Group: group, Version: version},
	}
	if name != "" {
		service.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: namespace, Name: name}
	}
	return service
}

// completeTable is a table that has all APIServices, partitions and reports.
func completeTable() *Table {
	table := NewTable(builtin)
	table.SetAPIService(apiService("", "v1", "tripod-system", "core"), nil)
	table.SetAPIService(apiService("apps", "v1", "tripod-system", "core"), nil)
	table.SetAPIService(apiService("example.com", "v1", "tripod-system", "extensions"), nil)
	table.SetAPIService(apiService("local.example.com", "v1", "", ""), nil)
	table.SetAPIService(apiService("future", "v1", "", ""), nil)
	table.SetAPIService(apiService("wardle.example.com", "v1", "wardle", "api"), http.NotFoundHandler())
	table.SetCore([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "future", Version: "v1"}})
	table.SetComplete()
	return table
}

func TestAnAPIServiceOfTheSameServerChangesNothing(t *testing.T) {
	table := completeTable()
	before := table.current.Load().services
	same := func() bool {
		return reflect.ValueOf(before).Pointer() == reflect.ValueOf(table.current.Load().services).Pointer()
	}
	table.SetAPIService(apiService("example.com", "v1", "tripod-system", "extensions"), nil)
	table.SetAPIService(apiService("local.example.com", "v1", "", ""), nil)
	assert.True(t, same(), "nothing is copied")
	table.SetAPIService(apiService("wardle.example.com", "v1", "wardle", "api"), http.NotFoundHandler())
	assert.False(t, same(), "an aggregated API server has another handler")
	table.SetAPIService(apiService("example.com", "v1", "wardle", "api"), http.NotFoundHandler())
	assert.Equal(t, Aggregated, table.GroupVersion(schema.GroupVersion{Group: "example.com", Version: "v1"}).Owner)
	assert.Equal(t, Extensions, before[schema.GroupVersion{Group: "example.com", Version: "v1"}].Owner, "snapshots stay as they are")
}

func TestRouteByPath(t *testing.T) {
	table := completeTable()
	for path, want := range map[string]Owner{
		"/":                                    Aggregator,
		"/apis":                                Aggregator,
		"/apis/":                               Aggregator,
		"/api":                                 Core,
		"/api/v1/namespaces/default/pods":      Core,
		"/apis/apps/v1/deployments":            Core,
		"/apis/apps":                           Aggregator,
		"/apis/example.com/v1/foos":            Extensions,
		"/apis/example.com":                    Aggregator,
		"/apis/example.com/v2/foos":            Extensions,
		"/apis/unheard.example.com/v1/foos":    Extensions,
		"/apis/unheard.example.com":            Extensions,
		"/apis/local.example.com/v1/foos":      Extensions,
		"/apis/future/v1/things":               Core,
		"/apis/wardle.example.com/v1/flunders": Aggregated,
		"/apis/apiregistration.k8s.io/v1/apiservices":             Aggregator,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": Extensions,
		"/version":                          Core,
		"/openid/v1/jwks":                   Core,
		"/.well-known/openid-configuration": Core,
		"/logs":                             Core,
		"/nowhere":                          Core,
		"/apiserver":                        Core,
		"/apisandmore/x":                    Core,
		"/healthz":                          Aggregator,
		"/readyz/etcd":                      Aggregator,
		"/livezx":                           Core,
		"/metrics":                          Aggregator,
		"/debug/pprof/profile":              Aggregator,
		"/openapi/v2":                       Aggregator,
		"/openapi/v3":                       Aggregator,
		"/openapi/v3/apis/apps/v1":          Aggregator,
		"/apis/apps/v9/deployments":         Core,
	} {
		assert.Equal(t, want, table.Route(path).Owner, "%s is routed", path)
	}
}

func TestAdditionalBackendsHaveTheGroupsOfTheirAPIServicesAlone(t *testing.T) {
	table := NewTable(builtin, "wardle", "unknown")
	table.SetCore([]schema.GroupVersion{{Version: "v1"}, {Group: "future", Version: "v1"}})
	table.SetComplete()
	for _, group := range []string{"wardle.example.com", "apps", "future", "", "apiregistration.k8s.io"} {
		table.SetAPIService(apiService(group, "v1", "tripod-system", "wardle"), nil)
	}
	table.SetAPIService(apiService("unknown.example.com", "v1", "tripod-system", "unknown"), nil)
	table.SetAPIService(apiService("search.example.com", "v1", "tripod-system", "search"), http.NotFoundHandler())
	table.SetAPIService(apiService("other.example.com", "v1", "default", "wardle"), http.NotFoundHandler())
	for path, want := range map[string]Owner{
		"/apis/wardle.example.com/v1/flunders":                    "wardle",
		"/apis/wardle.example.com/v2/flunders":                    Extensions,
		"/apis/wardle.example.com":                                Aggregator,
		"/apis/unknown.example.com/v1/things":                     "unknown",
		"/apis/search.example.com/v1/queries":                     Aggregated,
		"/apis/other.example.com/v1/flunders":                     Aggregated,
		"/apis/apps/v1/deployments":                               Core,
		"/apis/future/v1/things":                                  Core,
		"/api/v1/pods":                                            Core,
		"/apis/apiregistration.k8s.io/v1/apiservices":             Aggregator,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": Extensions,
	} {
		assert.Equal(t, want, table.Route(path).Owner, "%s is routed", path)
	}
}

func TestUnknownPathsAreNotGuessedBeforeEverythingWasHeard(t *testing.T) {
	const unheard, registered, local = "/apis/unheard.example.com/v1/foos", "/apis/example.com/v1/foos", "/apis/local.example.com/v1/foos"
	table := NewTable(builtin)

	expect := func(step string, want map[string]Owner) {
		t.Helper()
		for path, owner := range want {
			assert.Equal(t, owner, table.Route(path).Owner, "%s: %s is routed", step, path)
		}
	}
	expect("no reports", map[string]Owner{unheard: Unknown, registered: Unknown, "/apis": Unknown, "/apis/apps/v1/deployments": Core, "/api/v1/pods": Core})

	table.SetAPIService(apiService("example.com", "v1", "tripod-system", "extensions"), nil)
	table.SetAPIService(apiService("local.example.com", "v1", "", ""), nil)
	expect("some APIServices", map[string]Owner{unheard: Unknown, registered: Extensions, local: Extensions})

	table.SetComplete()
	expect("all APIServices", map[string]Owner{unheard: Unknown, "/apis": Aggregator, registered: Extensions})

	table.SetCore([]schema.GroupVersion{{Version: "v1"}})
	expect("core too", map[string]Owner{unheard: Extensions, registered: Extensions})
}

func TestAPIServiceCanBeTakenOverAndGivenBack(t *testing.T) {
	table := completeTable()
	gv := schema.GroupVersion{Group: "apps", Version: "v1"}

	table.SetAPIService(apiService("apps", "v1", "mine", "apps"), http.NotFoundHandler())
	if got := table.GroupVersion(gv); got.Owner != Aggregated || got.Handler == nil {
		t.Errorf("taken over, apps/v1 is routed to %+v", got)
	}
	table.RemoveAPIService(gv)
	if got := table.GroupVersion(gv).Owner; got != Core {
		t.Errorf("without an APIService, apps/v1 is routed to %s, want core", got)
	}
	table.RemoveAPIService(schema.GroupVersion{Group: "wardle.example.com", Version: "v1"})
	if got := table.Route("/apis/wardle.example.com/v1/flunders").Owner; got != Extensions {
		t.Errorf("after its APIService is gone, an aggregated API server's group is routed to %s, want extensions", got)
	}
}

func TestNoAPIServiceGivesGroupsOfCoreToExtensions(t *testing.T) {
	table := NewTable(func(group string) bool { return group != "future" })
	for _, group := range []string{"", "apps", "future", "disabled"} {
		table.SetAPIService(apiService(group, "v1", "tripod-system", "extensions"), nil)
	}
	paths := map[string]Owner{"/api/v1/secrets": Core, "/apis/apps/v1/deployments": Core, "/apis/disabled/v1/things": Core}
	for path, want := range paths {
		assert.Equal(t, want, table.Route(path).Owner, "before the first report of core, %s is routed", path)
	}
	table.SetCore([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "future", Version: "v2"}})
	table.SetComplete()
	// kube-apiserver serves CRDs in a built-in group that is disabled.
	paths["/apis/future/v1/things"], paths["/apis/disabled/v1/things"] = Core, Extensions
	for path, want := range paths {
		assert.Equal(t, want, table.Route(path).Owner, "%s is routed", path)
	}
	table.RemoveAPIService(schema.GroupVersion{Group: "disabled", Version: "v1"})
	assert.Equal(t, Core, table.Route("/apis/disabled/v1/things").Owner, "a disabled group without CRDs is routed")
}

func BenchmarkRoute(b *testing.B) {
	table := completeTable()
	b.ReportAllocs()
	for b.Loop() {
		table.Route("/apis/example.com/v1/namespaces/default/foos/bar")
	}
}

func TestPartitionsHaveGroupsWithoutAnAPIService(t *testing.T) {
	table := NewTable(builtin, "extensions-big")
	table.Divide(func(group string) Owner {
		if group == "big.example.com" || group == "old.example.com" || group == "apps" {
			return "extensions-big"
		}
		return Extensions
	})
	const path = "/apis/big.example.com/v1/foos"
	assert.Equal(t, Unknown, table.Route(path).Owner, "before the table knows all APIServices")
	table.SetCore([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}})
	table.SetComplete()
	// The first registration wins, until the partition has registered the group.
	table.SetAPIService(apiService("old.example.com", "v1", "tripod-system", "extensions"), nil)
	table.SetAPIService(apiService("new.example.com", "v1", "tripod-system", "extensions-big"), nil)
	// An APIService in the form of kube-apiserver names no server.
	table.SetAPIService(apiService("big.example.com", "v3", "", ""), nil)
	for path, want := range map[string]Owner{
		path: "extensions-big", "/apis/big.example.com/v3/foos": "extensions-big", "/apis/old.example.com/v1/foos": Extensions,
		"/apis/old.example.com/v2/foos": "extensions-big", "/apis/new.example.com/v1/foos": "extensions-big",
		"/apis/small.example.com/v1/foos": Extensions, "/apis/apps/v1/deployments": Core,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": Extensions,
	} {
		assert.Equal(t, want, table.Route(path).Owner, path)
	}
	for owner, want := range map[Owner]bool{Extensions: true, "extensions-big": true, Core: false, "extensionsbig": false, Aggregated: false} {
		assert.Equal(t, want, owner.ServesCustomResources(), owner)
	}
}
