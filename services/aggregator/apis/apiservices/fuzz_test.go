// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// FuzzServed has extensions claim any group-versions, one after the other. It gets none that is built in, and leaves none when it claims it no
// longer.
func FuzzServed(f *testing.F) {
	f.Add("example.com/v1 apps/v1 /v1", "apiextensions.k8s.io/v1 a..b/v1")
	f.Add("apiregistration.k8s.io/v1 x/y/z", "networking.k8s.io/v9")
	f.Fuzz(func(t *testing.T, first, second string) {
		registration := newRecorder()
		r := newRegistrar(t, registration, true)
		r.Set("core", slices.Collect(maps.Keys(apiVersionPriorities)))
		builtin := maps.Clone(registration.onStart)
		for _, claims := range []string{first, second, ""} {
			var served []schema.GroupVersion
			for claim := range strings.SplitSeq(claims, " ") {
				group, version, _ := strings.Cut(claim, "/")
				served = append(served, schema.GroupVersion{Group: group, Version: version})
			}
			r.Set("extensions", served)
			require.LessOrEqual(t, len(registration.synced), len(served))
			for name, service := range registration.synced {
				gv := schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}
				require.NotContains(t, apiVersionPriorities, gv)
				require.Empty(t, validation.IsDNS1123Subdomain(name))
				require.Contains(t, served, gv)
			}
			delete(registration.onStart, "v1.apiextensions.k8s.io")
			delete(builtin, "v1.apiextensions.k8s.io")
			require.Equal(t, builtin, registration.onStart)
		}
		require.Empty(t, registration.synced)
	})
}
