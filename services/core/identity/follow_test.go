// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

func TestChangesThatInvalidate(t *testing.T) {
	const kind = identityv1.Dependency_KIND_SECRET
	meta := func(namespace, name string, uid types.UID, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, ResourceVersion: version}
	}
	ending := meta("shop", "a", "1", "2")
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	sooner := ending
	sooner.DeletionTimestamp = &metav1.Time{Time: ending.DeletionTimestamp.Add(-time.Second)}
	opaque := func(m metav1.ObjectMeta) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: m, Type: corev1.SecretTypeOpaque}
	}
	token := func(m metav1.ObjectMeta) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: m, Type: corev1.SecretTypeServiceAccountToken}
	}
	bootstrap := func(version string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: meta("kube-system", "bootstrap-token-abcdef", "b", version), Type: "bootstrap.kubernetes.io/token"}
	}
	for _, test := range []struct {
		name   string
		change func(*Dependencies)
		want   []string
	}{
		{"deleted", func(d *Dependencies) { d.deleted(kind, opaque(meta("shop", "a", "1", "1"))) }, []string{"KIND_SECRET 1"}},
		{"deleted, unseen", func(d *Dependencies) {
			d.deleted(kind, cache.DeletedFinalStateUnknown{Key: "shop/a", Obj: opaque(meta("shop", "a", "1", "1"))})
		}, []string{"KIND_SECRET 1"}},
		{"deleted, and made again, unseen", func(d *Dependencies) {
			d.updated(kind, opaque(meta("shop", "a", "1", "1")), opaque(meta("shop", "a", "2", "2")))
		}, []string{"KIND_SECRET 1"}},
		{"ending", func(d *Dependencies) { d.updated(kind, opaque(meta("shop", "a", "1", "1")), opaque(ending)) }, []string{"KIND_SECRET 1"}},
		{"still ending", func(d *Dependencies) { d.updated(kind, opaque(ending), opaque(ending)) }, nil},
		{"ending sooner", func(d *Dependencies) { d.updated(kind, opaque(ending), opaque(sooner)) }, []string{"KIND_SECRET 1"}},
		{"changed", func(d *Dependencies) {
			d.updated(kind, opaque(meta("shop", "a", "1", "1")), opaque(meta("shop", "a", "1", "2")))
		}, nil},
		{"a token changed", func(d *Dependencies) {
			d.updated(kind, token(meta("shop", "a", "1", "1")), token(meta("shop", "a", "1", "2")))
		}, []string{"KIND_SECRET 1"}},
		{"a token repeated", func(d *Dependencies) {
			d.updated(kind, token(meta("shop", "a", "1", "1")), token(meta("shop", "a", "1", "1")))
		}, nil},
		{"a bootstrap token changed", func(d *Dependencies) { d.updated(kind, bootstrap("1"), bootstrap("2")) }, []string{"KIND_SECRET b", "KIND_BOOTSTRAP_TOKEN abcdef"}},
		{"a bootstrap token deleted", func(d *Dependencies) { d.deleted(kind, bootstrap("1")) }, []string{"KIND_SECRET b", "KIND_BOOTSTRAP_TOKEN abcdef"}},
		{"the name of one elsewhere", func(d *Dependencies) { d.deleted(kind, opaque(meta("shop", "bootstrap-token-abcdef", "1", "1"))) }, []string{"KIND_SECRET 1"}},
		{"something else", func(d *Dependencies) { d.deleted(kind, "nothing") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			registerMetrics()
			d := &Dependencies{invalidations: newInvalidations()}
			test.change(d)
			assert.Empty(t, cmp.Diff(test.want, inWords(t, d.invalidations, 0)), "invalidations")
		})
	}
}

// inWords returns the invalidations after a number, in words.
func inWords(t *testing.T, log *invalidations, after uint64) []string {
	t.Helper()
	all, complete := log.since(after)
	require.True(t, complete, "some are missing")
	var words []string
	for _, i := range all {
		words = append(words, i.GetDependency().GetKind().String()+" "+i.GetDependency().GetId())
	}
	return words
}
