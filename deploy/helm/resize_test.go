// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestMembersDoNotRestartIfTheirNumberChanges compares releases with different numbers of members.
func TestMembersDoNotRestartIfTheirNumberChanges(t *testing.T) {
	one, five := render(t, "etcd: {mode: perService, replicas: 1}"), render(t, "etcd: {mode: perService, replicas: 5}")
	for _, name := range []string{"tripod-etcd", "tripod-etcd-extensions"} {
		before := find(t, one, "StatefulSet", name, &appsv1.StatefulSet{})
		after := find(t, five, "StatefulSet", name, &appsv1.StatefulSet{})
		assert.Equal(t, before.Spec.Template, after.Spec.Template)
		assert.NotEqual(t, before.Spec.Selector, after.Spec.Selector, "the API would accept another number of members")
		selector, err := metav1.LabelSelectorAsSelector(after.Spec.Selector)
		require.NoError(t, err)
		assert.True(t, selector.Matches(labels.Set(before.Spec.Template.Labels)), "the pods of before are not those of the StatefulSet")
		assert.Equal(t, "new", find(t, five, "ConfigMap", name+"-members", &corev1.ConfigMap{}).Data["INITIAL_CLUSTER_STATE"])
	}
	config := find(t, one, "ConfigMap", "tripod-certificates", &corev1.ConfigMap{}).Data["config.yaml"]
	for _, member := range []string{"tripod-etcd-0.", "tripod-etcd-4.", "tripod-etcd-extensions-4."} {
		assert.Contains(t, config, "- "+member, "a certificate lacks a member that may come")
	}
}

// TestAnUpgradeKeepsTheNumberOfMembers upgrades a release whose etcd has another number of members, or is being resized.
func TestAnUpgradeKeepsTheNumberOfMembers(t *testing.T) {
	for _, test := range []struct {
		name, has, values, to, refused string
	}{
		{name: "the same", has: "1", values: "etcd: {replicas: 1}"},
		{name: "resized before", has: "3", values: "etcd: {replicas: 3}"},
		{name: "that of the preset", has: "1", values: "{}"},
		{
			name: "more", has: "1", values: "etcd: {replicas: 3}",
			refused: "etcd.replicas is 3, and tripod-etcd has 1: first run `tripod etcd resize tripod --namespace control --members 3`, or set etcd.replicas to 1",
		},
		{name: "forgotten", has: "3", values: "{}", refused: "etcd.replicas is 1, and tripod-etcd has 3: first run"},
		{
			name: "meanwhile", has: "3", values: "etcd: {replicas: 3}", to: "5",
			refused: "tripod etcd resize has not finished with tripod-etcd: run `tripod etcd resize tripod --namespace control --members 5` again first",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			set := find(t, render(t, "etcd: {replicas: "+test.has+"}"), "StatefulSet", "tripod-etcd", &appsv1.StatefulSet{})
			set.Namespace = namespace
			record := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "tripod-etcd-resized"}}
			if test.to != "" {
				record.Annotations = map[string]string{"tripod-k8s.io/resize-to": test.to}
			}
			_, err := helmTemplate(t, test.values, "--is-upgrade", "--dry-run=server", "--kube-apiserver="+clusterWith(t, set, record))
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.ErrorContains(t, err, test.refused)
		})
	}
}

// TestAnInstallationHasTheMembersOfTheVolumesThatAreThere installs a release that was uninstalled before.
func TestAnInstallationHasTheMembersOfTheVolumesThatAreThere(t *testing.T) {
	claims := func(ordinals ...int) (all []metav1.Object) {
		for _, i := range ordinals {
			all = append(all, &corev1.PersistentVolumeClaim{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-tripod-etcd-%d", i)},
			})
		}
		return all
	}
	record := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "tripod-etcd-resized"},
		Data: map[string]string{"MEMBERS": "a=b,c=d,e=f"},
	}
	for _, test := range []struct {
		name, values, refused string
		there                 []metav1.Object
	}{
		{name: "nothing is there", values: "etcd: {replicas: 3}"},
		{name: "all volumes", values: "etcd: {replicas: 3}", there: claims(0, 1, 2)},
		{name: "the volume of one", values: "etcd: {replicas: 1}", there: claims(0)},
		{name: "the volume of one for three", values: "etcd: {replicas: 3}", there: claims(0), refused: "tripod-etcd has a volume of its first member, but none of the last one"},
		{name: "a record of three", values: "etcd: {replicas: 3}", there: append(claims(0, 1, 2), record)},
		{name: "a record of three for one", values: "etcd: {replicas: 1}", there: []metav1.Object{record}, refused: "the ConfigMap tripod-etcd-resized names 3 members"},
		{name: "a record of three without volumes", values: "etcd: {replicas: 3}", there: []metav1.Object{record}, refused: "the ConfigMap tripod-etcd-resized is of an earlier etcd, whose volumes are gone: delete it first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := helmTemplate(t, test.values, "--dry-run=server", "--kube-apiserver="+clusterWith(t, test.there...))
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.refused)
		})
	}
}
