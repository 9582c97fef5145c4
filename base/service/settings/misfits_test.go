// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"testing"

	"github.com/stretchr/testify/assert"

	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

func TestReplicasWhoseVersionDoesNotFitAreFound(t *testing.T) {
	of := func(binary, emulated string) *backendv1.Settings {
		return &backendv1.Settings{BinaryVersion: binary, EmulationVersion: emulated}
	}
	older, newer, emulating := of("1.36.3", "1.36"), of("1.37.2", "1.37"), of("1.37.2", "1.36")
	type replicas map[string]*backendv1.Settings
	const third = "and the others are of 1.36 and 1.37: upgrade by one minor version at a time"
	for name, tc := range map[string]struct {
		own      *backendv1.Settings
		replicas replicas
		want     map[string]string
	}{
		"alone":                {newer, nil, nil},
		"alike":                {newer, replicas{"a": newer, "b": newer}, nil},
		"an upgrade":           {older, replicas{"a": emulating, "b": older}, nil},
		"an upgrade, on":       {emulating, replicas{"a": emulating, "b": older}, nil},
		"finalized in part":    {emulating, replicas{"a": newer, "b": emulating}, nil},
		"another patch":        {older, replicas{"a": of("1.36.9", "1.36")}, nil},
		"those that tell none": {older, replicas{"a": nil, "b": of("", ""), "c": of("latest", "latest")}, nil},
		"no version here":      {of("", ""), replicas{"a": newer, "b": older}, nil},
		"nothing here":         {nil, replicas{"a": newer, "b": older}, nil},
		"a newer one without emulation": {older, replicas{"a": newer, "b": older}, map[string]string{
			"a": "it has the API of Kubernetes 1.37, and this aggregator is of 1.36 and may not know what it stores: " +
				"start it with --emulated-version=1.36 until all are replaced",
		}},
		"beside one older": {emulating, replicas{"a": newer, "b": emulating, "c": older}, map[string]string{
			"a": "it has the API of Kubernetes 1.37, and c is of 1.36 and may not know what it stores: " +
				"start it with --emulated-version=1.36 until all are replaced",
		}},
		"without emulation, by halves": {older, replicas{"a": newer}, map[string]string{
			"a": "it has the API of Kubernetes 1.37, and this aggregator is of 1.36 and may not know what it stores: " +
				"start it with --emulated-version=1.36 until all are replaced",
		}},
		"without emulation, most of them": {older, replicas{"a": newer, "b": older, "c": newer, "d": newer}, map[string]string{
			"b": "it is of Kubernetes 1.36, and the others have the API of 1.37 and may store what it does not know: replace it by one of 1.37",
		}},
		"an older one that joins": {newer, replicas{"a": newer, "b": newer, "c": older}, map[string]string{
			"c": "it is of Kubernetes 1.36, and the others have the API of 1.37 and may store what it does not know: replace it by one of 1.37",
		}},
		"a third version, newer": {older, replicas{"a": emulating, "b": of("1.38.0", "1.36")}, map[string]string{
			"b": "it is of Kubernetes 1.38.0, " + third,
		}},
		"a third version, next to this one": {of("1.37.2", "1.36"), replicas{"a": older, "b": of("1.38.0", "1.36"), "c": older}, map[string]string{
			"b": "it is of Kubernetes 1.38.0, " + third,
		}},
		"as many of each": {emulating, replicas{"a": older, "b": of("1.38.0", "1.36")}, map[string]string{
			"b": "it is of Kubernetes 1.38.0, " + third,
		}},
		"a third version, older": {older, replicas{"a": of("1.35.9", "1.35"), "b": emulating, "c": emulating}, map[string]string{
			"a": "it is of Kubernetes 1.35.9, " + third,
		}},
		"two further": {older, replicas{"a": of("1.38.0", "1.36")}, map[string]string{
			"a": "it is of Kubernetes 1.38.0, and the others are of 1.36: upgrade by one minor version at a time",
		}},
		"another major version": {older, replicas{"a": of("2.36.0", "2.36")}, map[string]string{
			"a": "it is of Kubernetes 2.36.0, and the others are of 1.36: upgrade by one minor version at a time",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			assert.Equal(t, tc.want, Misfits(tc.own, tc.replicas))
		})
	}
}
