// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/hop/trust/trusttest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/list"
)

func atService(namespace, name, path string, port *int32) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
		Namespace: namespace, Name: name, Path: ptr.To(path), Port: port,
	}}
}

func webhooks(configs ...admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.ValidatingWebhookConfiguration {
	all := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "validating"}}
	for _, config := range configs {
		all.Webhooks = append(all.Webhooks, admissionregistrationv1.ValidatingWebhook{ClientConfig: config})
	}
	return all
}

func TestServicesMayCallWebhooksOnly(t *testing.T) {
	core := trusttest.Backend(t, trust.UserOf(list.Core))
	factory := informers.NewSharedInformerFactory(fake.NewClientset(
		webhooks(
			atService("default", "kubernetes", "/apis/a/v1/reviews", nil),
			atService("default", "kubernetes", "/apis/a/v1/port", ptr.To[int32](443)),
			atService("default", "kubernetes", "/apis/a/v1/other-port", ptr.To[int32](8443)),
			atService("default", "other", "/apis/a/v1/other-service", nil),
			admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "kubernetes"}},
			admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://kubernetes.default.svc/apis/a/v1/url")},
			admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://kubernetes.default.svc:8443/apis/a/v1/url-port")},
			admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://example.com/apis/a/v1/elsewhere")},
		),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{ClientConfig: atService("default", "kubernetes", "/apis/a/v1/mutations", nil)}},
		},
	), 0)
	calls := newWebhookCalls(factory, &manifestWebhooks{}, noConversions)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	jane := &user.DefaultInfo{Name: trust.UserOf(list.Core)}
	for _, test := range []struct {
		name  string
		user  user.Info
		verb  string
		path  string
		owner routing.Owner
		allow bool
	}{
		{"a webhook", core, "create", "/apis/a/v1/reviews", routing.Aggregated, true},
		{"with a port", core, "create", "/apis/a/v1/port", routing.Aggregated, true},
		{"by URL", core, "create", "/apis/a/v1/url", routing.Aggregated, true},
		{"a mutating webhook", core, "create", "/apis/a/v1/mutations", routing.Aggregated, true},
		{"a user with the name of core", jane, "create", "/apis/a/v1/reviews", routing.Aggregated, false},
		{"another verb", core, "delete", "/apis/a/v1/reviews", routing.Aggregated, false},
		{"what the aggregator serves", core, "create", "/apis/a/v1/reviews", routing.Aggregator, false},
		{"another path", core, "create", "/apis/a/v1/reviews/x", routing.Aggregated, false},
		{"another port", core, "create", "/apis/a/v1/other-port", routing.Aggregated, false},
		{"another port of a URL", core, "create", "/apis/a/v1/url-port", routing.Aggregated, false},
		{"another service", core, "create", "/apis/a/v1/other-service", routing.Aggregated, false},
		{"another host", core, "create", "/apis/a/v1/elsewhere", routing.Aggregated, false},
		{"no path", core, "create", "", routing.Aggregated, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := ownedBy(t.Context(), test.owner)
				decision, _, err := calls.Authorize(ctx, authorizer.AttributesRecord{User: test.user, Verb: test.verb, Path: test.path})
				if err != nil || (decision == authorizer.DecisionAllow) != test.allow || decision == authorizer.DecisionDeny {
					t.Errorf("decision %v, error %v", decision, err)
				}
			})
		})
	}
}

func noConversions(_, _ string) (there, reported bool) { return false, false }

// ownedBy returns a context of a request to a path of the API group a, which a backend serves.
func ownedBy(ctx context.Context, owner routing.Owner) context.Context {
	class := &routing.Request{Target: routing.Target{Owner: owner}, Info: &request.RequestInfo{APIGroup: "a", APIVersion: "v1"}}
	return class.In(ctx)
}

func TestExtensionsAloneCallsConversionWebhooks(t *testing.T) {
	const path = "/apis/a/v1/conversions"
	for name, allowed := range map[string]bool{
		trust.UserOf(list.Extensions): true, trust.UserOf("extensions-big"): true, trust.UserOf(list.Core): false, trust.UserOf("extensionsbig"): false,
	} {
		service := trusttest.Backend(t, name)
		synctest.Test(t, func(t *testing.T) {
			calls := newWebhookCalls(informers.NewSharedInformerFactory(fake.NewClientset(), 0), &manifestWebhooks{},
				func(_, at string) (bool, bool) { return at == path, true })
			ctx := ownedBy(t.Context(), routing.Aggregated)
			for at, there := range map[string]bool{path: true, path + "/x": false, "": false} {
				decision, _, err := calls.Authorize(ctx, authorizer.AttributesRecord{User: service, Verb: "create", Path: at})
				if err != nil || (decision == authorizer.DecisionAllow) != (allowed && there) {
					t.Errorf("%s at %q: decision %v, error %v", name, at, decision, err)
				}
			}
		})
	}
}

func TestWebhooksOfFilesAreCalled(t *testing.T) {
	core := trusttest.Backend(t, trust.UserOf(list.Core))
	url := "https://kubernetes.default.svc/apis/a/v1/reviews"
	configuration := webhooks(admissionregistrationv1.WebhookClientConfig{URL: &url})
	manifests := &manifestWebhooks{next: loaders{&initializer.ManifestLoaders{
		LoadValidatingWebhookManifests: func(string) ([]*admissionregistrationv1.ValidatingWebhookConfiguration, string, error) {
			return []*admissionregistrationv1.ValidatingWebhookConfiguration{configuration}, "", nil
		},
	}}}
	plugin := &manifestPlugin{}
	manifests.Initialize(plugin)
	if plugin.loaders == nil || plugin.loaders.LoadMutatingWebhookManifests != nil {
		t.Fatalf("loaders are %v", plugin.loaders)
	}
	calls := newWebhookCalls(informers.NewSharedInformerFactory(fake.NewClientset(), 0), manifests, noConversions)
	for _, loaded := range []bool{false, true} {
		if loaded {
			if _, _, err := plugin.loaders.LoadValidatingWebhookManifests("a"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			ctx := ownedBy(t.Context(), routing.Aggregated)
			decision, _, err := calls.Authorize(ctx, authorizer.AttributesRecord{User: core, Verb: "create", Path: "/apis/a/v1/reviews"})
			if err != nil || (decision == authorizer.DecisionAllow) != loaded {
				t.Errorf("loaded %v: decision %v, error %v", loaded, decision, err)
			}
		})
	}
}

// loaders initializes plugins with these.
type loaders struct{ *initializer.ManifestLoaders }

func (l loaders) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsManifestLoaders); ok {
		wants.SetManifestLoaders(l.ManifestLoaders)
	}
}

type manifestPlugin struct {
	admission.Interface
	loaders *initializer.ManifestLoaders
}

func (p *manifestPlugin) SetManifestLoaders(loaders *initializer.ManifestLoaders) {
	p.loaders = loaders
}

func TestServicesWaitForWebhooks(t *testing.T) {
	core, extensions := trusttest.Backend(t, trust.UserOf(list.Core)), trusttest.Backend(t, trust.UserOf(list.Extensions))
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	reported := false
	calls := newWebhookCalls(factory, &manifestWebhooks{}, func(_, _ string) (bool, bool) { return false, reported })
	var sender user.Info
	config := &genericapiserver.Config{Serializer: aggregatorscheme.Codecs}
	config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: sender}, true, nil
	})
	gate := calls.gate(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), config)
	send := func(from user.Info, method string) int {
		sender = from
		req := httptest.NewRequest(method, "/apis/a/v1/reviews", nil)
		w := httptest.NewRecorder()
		gate.ServeHTTP(w, req.WithContext(ownedBy(req.Context(), routing.Aggregated)))
		return w.Code
	}
	expect := func(when string, want map[int][]int) {
		t.Helper()
		got := map[int][]int{}
		for i, from := range []user.Info{core, extensions, &user.DefaultInfo{Name: "jane"}} {
			got[i] = []int{send(from, http.MethodPost), send(from, http.MethodGet)}
		}
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: answers are %v, want %v", when, got, want)
		}
	}
	const pass, wait = http.StatusNoContent, http.StatusServiceUnavailable
	expect("nothing was reported", map[int][]int{0: {wait, pass}, 1: {wait, pass}, 2: {pass, pass}})
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	expect("core is known", map[int][]int{0: {pass, pass}, 1: {wait, pass}, 2: {pass, pass}})
	reported = true
	expect("both are known", map[int][]int{0: {pass, pass}, 1: {pass, pass}, 2: {pass, pass}})
}

func TestAWebhookMayBeHeardOfALittleLater(t *testing.T) {
	core := trusttest.Backend(t, trust.UserOf(list.Core))
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	calls := newWebhookCalls(factory, &manifestWebhooks{}, noConversions)
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(informerLag / 2)
			store := factory.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer().GetStore()
			assert.NoError(t, store.Add(webhooks(atService("default", "kubernetes", "/apis/a/v1/reviews", nil))))
		}()
		ctx := ownedBy(t.Context(), routing.Aggregated)
		decision, reason, err := calls.Authorize(ctx, authorizer.AttributesRecord{User: core, Verb: "create", Path: "/apis/a/v1/reviews"})
		if err != nil || decision != authorizer.DecisionAllow {
			t.Errorf("decision %v because %q, error %v", decision, reason, err)
		}
	})
}
