// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// curious is a plugin that remembers that it was asked.
type curious struct {
	*admission.Handler
	times int
}

var errAsked = errors.New("asked")

func (p *curious) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	p.times++
	return errAsked
}

func (p *curious) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	p.times++
	return errAsked
}

func TestAPIServicesAreAdmittedOnceCoreHasReported(t *testing.T) {
	for _, test := range []struct {
		name, user, subresource string
		received                bool
		code                    int32
		isAsked                 bool
	}{
		{name: "after", user: "jane", received: true, isAsked: true},
		{name: "before", user: "jane", code: http.StatusServiceUnavailable},
		{name: "a status before", user: "jane", subresource: "status", code: http.StatusServiceUnavailable},
		{name: "a registration before", user: user.APIServerUser, code: http.StatusServiceUnavailable},
		{name: "availability before", user: user.APIServerUser, subresource: "status"},
		{name: "availability after", user: user.APIServerUser, subresource: "status", received: true, isAsked: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			plugin := &curious{Handler: admission.NewHandler(admission.Create)}
			chain := &afterCore{next: plugin, received: func() bool { return test.received }}
			attributes := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "a", schema.GroupVersionResource{}, test.subresource,
				admission.Create, nil, false, &user.DefaultInfo{Name: test.user})
			for _, err := range []error{chain.Admit(t.Context(), attributes, nil), chain.Validate(t.Context(), attributes, nil)} {
				switch _, again := apierrors.SuggestsClientDelay(err); {
				case test.isAsked && !errors.Is(err, errAsked):
					t.Errorf("got %v, want the answer of the plugin", err)
				case test.code != 0 && (apierrors.ReasonForError(err) != metav1.StatusReasonServiceUnavailable || !again):
					t.Errorf("got %v, want one that says that it can be tried again", err)
				case !test.isAsked && test.code == 0 && err != nil:
					t.Error(err)
				}
			}
			assert.Equal(t, test.isAsked, plugin.times > 0, "the plugin was asked %d times", plugin.times)
		})
	}
}

func TestAdmissionWaitsForWhatItFollows(t *testing.T) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	followed := &admissionInformers{SharedInformerFactory: informers.NewSharedInformerFactory(fake.NewClientset(configuration), 0)}
	namespaces := followed.Core().V1().Namespaces()
	if list, err := namespaces.Lister().List(labels.Everything()); err != nil || len(list) > 0 || !namespaces.Informer().HasSynced() {
		t.Errorf("namespaces are %v, %v", list, err)
	}
	if !followed.received() {
		t.Error("it waits for an informer that nobody started")
	}
	webhooks := followed.Admissionregistration().V1().ValidatingWebhookConfigurations()
	lister := webhooks.Lister()
	if followed.received() {
		t.Error("it does not wait for webhooks")
	}
	followed.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), followed.received) {
		t.Fatal("webhooks are not received")
	}
	if list, err := lister.List(labels.Everything()); err != nil || len(list) != 1 {
		t.Errorf("webhooks are %v, %v", list, err)
	}
}
