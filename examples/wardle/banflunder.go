// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/examples/wardle/v1alpha1"
)

// banFlunder admits no flunder whose name a fischer disallows.
type banFlunder struct {
	*admission.Handler
	fischers *apiservice.Followed[*v1alpha1.Fischer]
}

func newBanFlunder(e *apiservice.Environment) (admission.Interface, error) {
	fischers, err := apiservice.Follow[*v1alpha1.Fischer](e, "fischers")
	if err != nil {
		return nil, err
	}
	p := &banFlunder{admission.NewHandler(admission.Create), fischers}
	p.SetReadyFunc(fischers.HasSynced)
	return p, nil
}

// Admit implements admission.MutationInterface.
func (p *banFlunder) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().Kind != "Flunder" {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return err
	}
	for _, fischer := range p.fischers.List() {
		if slices.Contains(fischer.DisallowedFlunders, object.GetName()) {
			return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
				errors.New("this name may not be used, please change the resource name"))
		}
	}
	return nil
}
