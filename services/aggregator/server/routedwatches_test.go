// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"github.com/stretchr/testify/assert"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

func TestWatchesEndWhenAnotherBackendGetsTheirGroup(t *testing.T) {
	table := routing.NewTable(func(string) bool { return false }, "books")
	table.SetCore(nil)
	table.SetComplete()
	r := &routedWatches{table: table}
	gv := schema.GroupVersion{Group: "library.example.com", Version: "v1"}
	lead := func(to *apiregistrationv1.ServiceReference) {
		table.SetAPIService(&apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.library.example.com"},
			Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, Service: to},
		}, nil)
		r.reconsider(gv)
	}
	ended := map[string]int{}
	watch := func(name string, owner routing.Owner, version string, kind routing.Kind) func() {
		return r.follow(&routing.Request{
			Target: routing.Target{Owner: owner}, Kind: kind, Info: &request.RequestInfo{APIGroup: gv.Group, APIVersion: version},
		}, func() { ended[name]++ })
	}
	lead(nil)
	watch("a watch", routing.Extensions, "v1", routing.Watch)
	watch("a watch of another version", routing.Extensions, "v2", routing.Watch)
	watch("a list", routing.Extensions, "v1", routing.Object)
	watch("a watch that its client has ended", routing.Extensions, "v1", routing.Watch)()
	lead(nil)
	assert.Empty(t, ended, "the owner is the same")

	lead(&apiregistrationv1.ServiceReference{Namespace: trust.Namespace, Name: "books"})
	assert.Equal(t, map[string]int{"a watch": 1}, ended)
	clear(ended)
	watch("a watch that was routed before", routing.Extensions, "v1", routing.Watch)
	watch("a watch at the next owner", "books", "v1", routing.Watch)
	assert.Equal(t, map[string]int{"a watch that was routed before": 1}, ended)
}
