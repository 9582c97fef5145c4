// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/internal/servicetrust"
	"github.com/tripod-k8s/tripod/internal/servicetrust/servicetrusttest"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
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
	core := servicetrusttest.Backend(t, servicetrust.Core)
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
	calls := newWebhookCalls(factory)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	jane := &user.DefaultInfo{Name: servicetrust.Core}
	for _, test := range []struct {
		name  string
		user  user.Info
		verb  string
		path  string
		owner routing.Owner
		allow bool
	}{
		{"a webhook", core, "create", "/apis/a/v1/reviews", routing.ThirdParty, true},
		{"with a port", core, "create", "/apis/a/v1/port", routing.ThirdParty, true},
		{"by URL", core, "create", "/apis/a/v1/url", routing.ThirdParty, true},
		{"a mutating webhook", core, "create", "/apis/a/v1/mutations", routing.ThirdParty, true},
		{"a user with the name of core", jane, "create", "/apis/a/v1/reviews", routing.ThirdParty, false},
		{"another verb", core, "delete", "/apis/a/v1/reviews", routing.ThirdParty, false},
		{"what the aggregator serves", core, "create", "/apis/a/v1/reviews", routing.Aggregator, false},
		{"another path", core, "create", "/apis/a/v1/reviews/x", routing.ThirdParty, false},
		{"another port", core, "create", "/apis/a/v1/other-port", routing.ThirdParty, false},
		{"another port of a URL", core, "create", "/apis/a/v1/url-port", routing.ThirdParty, false},
		{"another service", core, "create", "/apis/a/v1/other-service", routing.ThirdParty, false},
		{"another host", core, "create", "/apis/a/v1/elsewhere", routing.ThirdParty, false},
		{"no path", core, "create", "", routing.ThirdParty, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.WithValue(t.Context(), targetKey{}, routing.Target{Owner: test.owner})
				decision, _, err := calls.Authorize(ctx, authorizer.AttributesRecord{User: test.user, Verb: test.verb, Path: test.path})
				if err != nil || (decision == authorizer.DecisionAllow) != test.allow || decision == authorizer.DecisionDeny {
					t.Errorf("decision %v, error %v", decision, err)
				}
			})
		})
	}
}

func TestAWebhookMayBeHeardOfALittleLater(t *testing.T) {
	core := servicetrusttest.Backend(t, servicetrust.Core)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	calls := newWebhookCalls(factory)
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(hearsay / 2)
			store := factory.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer().GetStore()
			if err := store.Add(webhooks(atService("default", "kubernetes", "/apis/a/v1/reviews", nil))); err != nil {
				t.Error(err)
			}
		}()
		ctx := context.WithValue(t.Context(), targetKey{}, routing.Target{Owner: routing.ThirdParty})
		decision, reason, err := calls.Authorize(ctx, authorizer.AttributesRecord{User: core, Verb: "create", Path: "/apis/a/v1/reviews"})
		if err != nil || decision != authorizer.DecisionAllow {
			t.Errorf("decision %v because %q, error %v", decision, reason, err)
		}
	})
}
