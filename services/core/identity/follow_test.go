// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
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
		{"changed", func(d *Dependencies) { d.updated(kind, opaque(meta("shop", "a", "1", "1")), opaque(meta("shop", "a", "1", "2"))) }, nil},
		{"a token changed", func(d *Dependencies) { d.updated(kind, token(meta("shop", "a", "1", "1")), token(meta("shop", "a", "1", "2"))) }, []string{"KIND_SECRET 1"}},
		{"a token repeated", func(d *Dependencies) { d.updated(kind, token(meta("shop", "a", "1", "1")), token(meta("shop", "a", "1", "1"))) }, nil},
		{"a bootstrap token changed", func(d *Dependencies) { d.updated(kind, bootstrap("1"), bootstrap("2")) }, []string{"KIND_SECRET b", "KIND_BOOTSTRAP_TOKEN abcdef"}},
		{"a bootstrap token deleted", func(d *Dependencies) { d.deleted(kind, bootstrap("1")) }, []string{"KIND_SECRET b", "KIND_BOOTSTRAP_TOKEN abcdef"}},
		{"the name of one elsewhere", func(d *Dependencies) { d.deleted(kind, opaque(meta("shop", "bootstrap-token-abcdef", "1", "1"))) }, []string{"KIND_SECRET 1"}},
		{"something else", func(d *Dependencies) { d.deleted(kind, "nothing") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			registerMetrics()
			d := &Dependencies{invalidations: newInvalidations()}
			test.change(d)
			if diff := cmp.Diff(test.want, inWords(t, d.invalidations, 0)); diff != "" {
				t.Errorf("invalidations (-want +got):\n%s", diff)
			}
		})
	}
}

// inWords returns the invalidations after a number, in words.
func inWords(t *testing.T, log *invalidations, after uint64) []string {
	t.Helper()
	all, complete := log.since(after)
	if !complete {
		t.Fatal("some are missing")
	}
	var words []string
	for _, i := range all {
		words = append(words, i.GetDependency().GetKind().String()+" "+i.GetDependency().GetId())
	}
	return words
}

func TestObjectsAreFollowed(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "a"}
	with := func(uid types.UID) metav1.ObjectMeta { m := meta; m.UID = uid; return m }
	client := fake.NewClientset(
		&corev1.ServiceAccount{ObjectMeta: with("account")}, &corev1.Secret{ObjectMeta: with("secret")},
		&corev1.Pod{ObjectMeta: with("pod")}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "node"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	d, err := Follow(factory)
	if err != nil {
		t.Fatal(err)
	}
	if d.Synced() {
		t.Error("it is synced before it starts")
	}
	factory.Start(t.Context().Done())
	s := NewService(Config{Dependencies: d})
	if !s.WaitReady(t.Context()) {
		t.Fatal("it is never synced")
	}
	for _, step := range []struct {
		remove func(context.Context, string, metav1.DeleteOptions) error
		want   string
	}{
		{client.CoreV1().ServiceAccounts("shop").Delete, "KIND_SERVICE_ACCOUNT account"},
		{client.CoreV1().Secrets("shop").Delete, "KIND_SECRET secret"},
		{client.CoreV1().Pods("shop").Delete, "KIND_POD pod"},
		{client.CoreV1().Nodes().Delete, "KIND_NODE node"},
	} {
		before := d.invalidations.last()
		if err := step.remove(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-d.invalidations.after(before)
		if diff := cmp.Diff([]string{step.want}, inWords(t, d.invalidations, before)); diff != "" {
			t.Errorf("invalidations (-want +got):\n%s", diff)
		}
	}
}
