// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"sigs.k8s.io/randfill"

	"github.com/tripod-k8s/tripod/apiservice/apitest"
	"github.com/tripod-k8s/tripod/examples/wardle/v1beta1"
)

func TestNoVersionLosesFields(t *testing.T) {
	// A flunder refers to one thing, of the type that it says. The older version has one field for all types.
	apitest.RoundTrip(t, service(), func(spec *v1beta1.FlunderSpec, c randfill.Continue) {
		*spec = v1beta1.FlunderSpec{ReferenceType: v1beta1.FlunderReferenceType, FlunderReference: c.String(0)}
		if c.Bool() {
			*spec = v1beta1.FlunderSpec{ReferenceType: v1beta1.FischerReferenceType, FischerReference: c.String(0)}
		}
	})
}
