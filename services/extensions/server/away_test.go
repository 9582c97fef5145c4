// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
)

// failing is a plugin that only validates, and never admits.
type failing struct {
	*admission.Handler
	err error
}

func (f failing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return f.err
}

func TestPluginsThatCannotAskCoreSayThatItCanBeTriedAgain(t *testing.T) {
	client, err := kubernetes.NewForConfig(link.NewImpatient(coreService, nil, trust.Options{}).Config())
	if err != nil {
		t.Fatal(err)
	}
	_, away := client.CoreV1().Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
	resource := schema.GroupResource{Resource: "namespaces"}
	for name, test := range map[string]struct {
		err   error
		code  int32
		after bool
	}{
		"core is away":                   {away, http.StatusServiceUnavailable, true},
		"which is called forbidden":      {apierrors.NewForbidden(resource, "a", away), http.StatusServiceUnavailable, true},
		"which is an internal error":     {apierrors.NewInternalError(away), http.StatusServiceUnavailable, true},
		"it is forbidden":                {apierrors.NewForbidden(resource, "a", errors.New("no")), http.StatusForbidden, false},
		"an error of the plugin's own":   {errors.New("no"), 0, false},
		"there is nothing wrong with it": {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := withRetry(failing{admission.NewHandler(admission.Create), test.err}, "")
			if err := plugin.(admission.MutationInterface).Admit(t.Context(), nil, nil); err != nil {
				t.Errorf("it does not mutate, and says %v", err)
			}
			got := plugin.(admission.ValidationInterface).Validate(t.Context(), nil, nil)
			if test.code == 0 {
				if !errors.Is(got, test.err) {
					t.Errorf("error is %v, want %v", got, test.err)
				}
				return
			}
			var status apierrors.APIStatus
			if !errors.As(got, &status) || status.Status().Code != test.code {
				t.Fatalf("error is %v, want one with status %d", got, test.code)
			}
			if _, after := apierrors.SuggestsClientDelay(got); after != test.after {
				t.Errorf("clients are told to try again: %v", after)
			}
		})
	}
}
