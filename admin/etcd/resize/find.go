// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of the chart.
const (
	labelRelease = "app.kubernetes.io/instance"
	labelPartOf  = "app.kubernetes.io/part-of"
	labelEtcd    = "tripod-k8s.io/etcd"
	// labelMembers is no label of pods: the selector excludes a value of it, which is the number of members.
	labelMembers = "tripod-k8s.io/etcd-members"

	annotationRestore = "tripod-k8s.io/restore"

	dataVolume = "data"
)

// find returns the etcds of the release, or the one with the name.
func find(ctx context.Context, o Options) ([]*resizer, error) {
	if o.Members < 1 || o.Members > maxMembers || o.Members%2 == 0 {
		return nil, fmt.Errorf("--members is %d: an etcd of the chart can have 1, 3 or 5", o.Members)
	}
	selector := metav1.ListOptions{LabelSelector: o.selector()}
	sets, err := o.Client.AppsV1().StatefulSets(o.Namespace).List(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("cannot look for the etcd of the release: %w", err)
	}
	found := map[string]string{}
	for _, set := range sets.Items {
		if name := set.Spec.Template.Labels[labelEtcd]; name != "" {
			found[name] = set.Name
		}
	}
	// A command that was interrupted between two steps may have left the record of a StatefulSet without the StatefulSet.
	records, err := o.Client.CoreV1().ConfigMaps(o.Namespace).List(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("cannot look for an earlier resize: %w", err)
	}
	for i, record := range records.Items {
		name := record.Labels[labelEtcd]
		switch {
		case name == "" || found[name] != "" || o.Etcd != "" && o.Etcd != name:
		case record.Annotations[annotationSet] != "":
			found[name] = strings.TrimSuffix(record.Name, recordSuffix)
		default:
			return nil, missing(&records.Items[i])
		}
	}
	if err := o.checkPods(ctx, found); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(found))
	if len(names) == 0 {
		return nil, fmt.Errorf("the release %s in the namespace %s runs no etcd: change the members of your own etcd with its own tools",
			o.Release, o.Namespace)
	}
	if o.Etcd != "" {
		if found[o.Etcd] == "" {
			return nil, fmt.Errorf("the release %s has no etcd %s of its own (it has %q)", o.Release, o.Etcd, names)
		}
		names = []string{o.Etcd}
	}
	var all []*resizer
	for _, name := range names {
		all = append(all, newResizer(o, name, found[name]))
	}
	return all, nil
}

// missing is the error for a record of a resize that has finished, whose StatefulSet is not there.
func missing(record *corev1.ConfigMap) error {
	members := membersOf(record)
	return fmt.Errorf("the StatefulSet %s is missing: `helm upgrade` with etcd.replicas=%d makes it again, beside its %d pods "+
		"(if the release no longer has this etcd, delete the ConfigMap %s)",
		strings.TrimSuffix(record.Name, recordSuffix), members, members, record.Name)
}

// checkPods returns an error if pods of etcd run without a StatefulSet.
func (o *Options) checkPods(ctx context.Context, found map[string]string) error {
	selector := o.selector() + "," + labelEtcd
	if o.Etcd != "" {
		selector += "=" + o.Etcd
	}
	pods, err := o.Client.CoreV1().Pods(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("cannot look for the pods of etcd: %w", err)
	}
	for _, pod := range pods.Items {
		if found[pod.Labels[labelEtcd]] == "" && pod.DeletionTimestamp == nil {
			return fmt.Errorf("the StatefulSet of the pod %s is missing: `helm upgrade` with the values that the release has makes it again, "+
				"beside its pods", pod.Name)
		}
	}
	return nil
}

func newResizer(o Options, etcd, set string) *resizer {
	r := &resizer{Options: o, etcd: etcd, set: set, interval: pollInterval}
	r.peerURL = func(ordinal int) string { return fmt.Sprintf("https://%s:2380", r.host(ordinal)) }
	r.clientURL = r.serviceURL
	r.connect = r.connectThroughPods
	return r
}

func (o *Options) selector() string { return labelPartOf + "=tripod," + labelRelease + "=" + o.Release }

// member returns the name of a member, which is that of its pod.
func (r *resizer) member(ordinal int) string { return fmt.Sprintf("%s-%d", r.set, ordinal) }

func (r *resizer) host(ordinal int) string {
	return fmt.Sprintf("%s.%s.%s.svc", r.member(ordinal), r.set, r.Namespace)
}

var errRestore = errors.New("a restore has not finished: first run `tripod etcd restore-release` again")

// declared returns the number of members that the selector of a StatefulSet names, or 0.
func declared(set *appsv1.StatefulSet) int {
	for _, e := range set.Spec.Selector.MatchExpressions {
		if e.Key == labelMembers && len(e.Values) == 1 {
			n, _ := strconv.Atoi(e.Values[0]) // an invalid one is 0
			return n
		}
	}
	return 0
}

// checkSet refuses a StatefulSet that cannot be resized.
func (r *resizer) checkSet(ctx context.Context, set *appsv1.StatefulSet) error {
	pod := set.Spec.Template.Spec
	switch {
	case declared(set) == 0:
		return errors.New("it is of an earlier chart, which cannot change the number of members: " +
			"install a new release, and restore a snapshot there")
	case set.Annotations[annotationRestore] != "":
		return errRestore
	case slices.ContainsFunc(pod.InitContainers, func(c corev1.Container) bool { return c.Name == "restore" }):
		return errors.New("the release still has etcd.restore, so new members would restore the snapshot: " +
			"remove that value by helm upgrade first")
	case set.Spec.Replicas != nil && *set.Spec.Replicas == 0:
		return errors.New("it is scaled to 0: start it first")
	case r.Members > 1 && !hasVolumes(set):
		return errors.New("it keeps no data in volumes (etcd.persistence.enabled), " +
			"and of several members, one that loses its data does not come back by itself")
	}
	return r.checkCertificate(ctx)
}

func hasVolumes(set *appsv1.StatefulSet) bool {
	return slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == dataVolume })
}

// checkCertificate expects that the certificate of members has the names of all that are to come.
func (r *resizer) checkCertificate(ctx context.Context) error {
	name := r.set + "-server"
	secret, err := r.Client.CoreV1().Secrets(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot get the certificate of members: %w", err)
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return fmt.Errorf("the Secret %s has no certificate", name)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("the certificate in the Secret %s: %w", name, err)
	}
	for i := range r.Members {
		if !slices.Contains(certificate.DNSNames, r.host(i)) {
			return fmt.Errorf("the certificate in the Secret %s lacks the name %s: run helm upgrade with this chart first", name, r.host(i))
		}
	}
	return nil
}

// checkClaim refuses a volume from before, with which a new member could not start.
func (r *resizer) checkClaim(ctx context.Context, ordinal int) error {
	name := r.claim(ordinal)
	_, err := r.Client.CoreV1().PersistentVolumeClaims(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("cannot see whether the volume of %s is new: %w", r.member(ordinal), err)
	}
	return fmt.Errorf("the PersistentVolumeClaim %s is of an earlier member, whose data a new one cannot use: delete it first", name)
}

func (r *resizer) claim(ordinal int) string { return dataVolume + "-" + r.member(ordinal) }
