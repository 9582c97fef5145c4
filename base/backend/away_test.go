// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/base/hop/link"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// failing is a plugin that only validates, and never admits.
type failing struct {
	*admission.Handler
	err func() error
}

func (f failing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return f.err()
}

func TestPluginsThatCannotAskCoreSayThatItCanBeTriedAgain(t *testing.T) {
	core := link.New("core", nil, trust.Options{})
	client, err := kubernetes.NewForConfig(core.Config(link.Fail))
	require.NoError(t, err)
	away := func() error {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
		return err
	}
	own := errors.New("no")
	resource := schema.GroupResource{Resource: "namespaces"}
	for name, test := range map[string]struct {
		err   func() error
		code  int32
		after bool
	}{
		"core is away":               {away, http.StatusServiceUnavailable, true},
		"which is called forbidden":  {func() error { return apierrors.NewForbidden(resource, "a", away()) }, http.StatusServiceUnavailable, true},
		"which is an internal error": {func() error { return apierrors.NewInternalError(away()) }, http.StatusServiceUnavailable, true},
		"a policy says the same": {func() error {
			return apierrors.NewForbidden(resource, "a", errors.New("no replica of core can be reached"))
		}, http.StatusForbidden, false},
		"it is forbidden":                {func() error { return apierrors.NewForbidden(resource, "a", own) }, http.StatusForbidden, false},
		"an error of the plugin's own":   {func() error { return own }, 0, false},
		"there is nothing wrong with it": {func() error { return nil }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := withRetry(core).Decorate(failing{admission.NewHandler(admission.Create), test.err}, "")
			assert.NoError(t, plugin.(admission.MutationInterface).Admit(t.Context(), nil, nil), "admission of something that it does not mutate")
			got := plugin.(admission.ValidationInterface).Validate(t.Context(), nil, nil)
			if test.code == 0 {
				assert.ErrorIs(t, got, test.err())
				return
			}
			var status apierrors.APIStatus
			if !errors.As(got, &status) || status.Status().Code != test.code {
				t.Fatalf("error is %v, want one with status %d", got, test.code)
			}
			if _, after := apierrors.SuggestsClientDelay(got); after != test.after {
				t.Errorf("clients get Retry-After: %v", after)
			}
		})
	}
}
