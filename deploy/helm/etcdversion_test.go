// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
)

// TestEtcdMovesByOneMinorVersion upgrades a release whose etcd has another version. An older etcd refuses the data of a later one.
func TestEtcdMovesByOneMinorVersion(t *testing.T) {
	const gone = "etcd moves one minor version at a time, not to "
	for _, test := range []struct {
		name, image, values, refused string
	}{
		{name: "the same", image: "gcr.io/etcd-development/etcd:v3.7.1", values: "etcd: {image: {tag: v3.7.3}}"},
		{name: "the next", image: "registry.example.com:5000/etcd:v3.6.16", values: "etcd: {image: {tag: v3.7.3}}"},
		{name: "one too far", image: "etcd:3.5.33-0", values: "etcd: {image: {tag: v3.7.3}}", refused: "tripod-etcd has etcd 3.5, and " + gone + "3.7"},
		{
			name: "the one before", image: "etcd:v3.7.3@sha256:1234", values: "etcd: {image: {tag: v3.6.16}}",
			refused: `has etcd 3.7, whose data etcd 3.6 refuses: keep etcd.image.tag, or have etcd go back first and set etcd.downgradedTo to "3.6"`,
		},
		{name: "the one before, whose form the data has", image: "etcd:v3.7.3", values: `etcd: {downgradedTo: "3.6", image: {tag: v3.6.16}}`},
		{name: "the next, after all", image: "etcd:v3.6.16", values: `etcd: {downgradedTo: "3.6", image: {tag: v3.7.3}}`},
		{name: "two before", image: "etcd:v3.8.0", values: `etcd: {downgradedTo: "3.6", image: {tag: v3.6.16}}`, refused: gone + "3.6"},
		{name: "an image of the user", image: "etcd:mine", values: "etcd: {image: {tag: v3.6.16}}"},
		{name: "to an image of the user", image: "etcd:v3.7.3", values: "etcd: {image: {tag: mine}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			set := find(t, render(t, "{}"), "StatefulSet", "tripod-etcd", &appsv1.StatefulSet{})
			set.Namespace, set.Spec.Template.Spec.Containers[0].Image = namespace, test.image
			_, err := helmTemplate(t, test.values, "--is-upgrade", "--dry-run=server", "--kube-apiserver="+clusterWith(t, set))
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.ErrorContains(t, err, test.refused)
		})
	}
}
