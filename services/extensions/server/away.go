// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tripod-k8s/tripod/internal/hop/link"
)

// coreService is the name of core among the services.
const coreService = "core"

// retryAfter is when clients may try again, in seconds, what cannot be admitted while core is away.
const retryAfter = 1

// withRetry makes a plugin say that a request can be tried again, where it could not ask core what it needs to know: kube-apiserver
// itself would be away then. Plugins would call that an internal error, or forbid the request.
func withRetry(plugin admission.Interface, _ string) admission.Interface { return &retriable{plugin} }

// retriable is a plugin with such errors.
type retriable struct{ admission.Interface }

var (
	_ admission.MutationInterface   = &retriable{}
	_ admission.ValidationInterface = &retriable{}
)

// Admit implements admission.MutationInterface.
func (r *retriable) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if plugin, ok := r.Interface.(admission.MutationInterface); ok {
		return orRetry(plugin.Admit(ctx, a, o))
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (r *retriable) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if plugin, ok := r.Interface.(admission.ValidationInterface); ok {
		return orRetry(plugin.Validate(ctx, a, o))
	}
	return nil
}

func orRetry(err error) error {
	if !link.QuotesUnreachable(coreService, err) {
		return err
	}
	unavailable := apierrors.NewServiceUnavailable("admission cannot ask core: " + err.Error())
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return unavailable
}
