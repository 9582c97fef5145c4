// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tripod-k8s/tripod/base/hop/link"
)

// retryAfter is when clients may retry a request that cannot be admitted while core is away, in seconds.
const retryAfter = 1

// withRetry makes a plugin answer with Retry-After if it could not ask core for what it needs. By itself the plugin would call that an
// internal error, or forbid the request. In kube-apiserver it cannot happen: the server itself would be away.
func withRetry(core *link.Link) admission.Decorator {
	return admission.DecoratorFunc(func(plugin admission.Interface, _ string) admission.Interface { return &retriable{plugin, core} })
}

// retriable is a plugin that returns such errors.
type retriable struct {
	admission.Interface
	core *link.Link
}

var (
	_ admission.MutationInterface   = &retriable{}
	_ admission.ValidationInterface = &retriable{}
)

// Admit implements admission.MutationInterface.
func (r *retriable) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if plugin, ok := r.Interface.(admission.MutationInterface); ok {
		began := time.Now()
		return r.orRetry(plugin.Admit(ctx, a, o), began)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (r *retriable) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if plugin, ok := r.Interface.(admission.ValidationInterface); ok {
		began := time.Now()
		return r.orRetry(plugin.Validate(ctx, a, o), began)
	}
	return nil
}

func (r *retriable) orRetry(err error, began time.Time) error {
	if !r.core.Explains(err, began) {
		return err
	}
	unavailable := apierrors.NewServiceUnavailable("admission cannot ask core: " + err.Error())
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return unavailable
}
