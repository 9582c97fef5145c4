// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package releases

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/admin/etcd/resize"
	"github.com/tripod-k8s/tripod/admin/etcd/snapshot"
)

// Labels of the chart, and annotations of stopped objects.
const (
	labelRelease = "app.kubernetes.io/instance"
	labelPartOf  = "app.kubernetes.io/part-of"
	labelEtcd    = "tripod-k8s.io/etcd"

	annotationReplicas = "tripod-k8s.io/replicas-before-restore"
)

// restoration is one restore of an etcd.
type restoration struct {
	Options

	set *appsv1.StatefulSet
	// saving is the CronJob that saves snapshots of the etcd. Its pods can read where they are.
	saving *batchv1.CronJob
	// deployments are what uses the etcd.
	deployments []appsv1.Deployment
	location    string
	// mark names this restore, also in the data of members, phase is how far it is, and owner names the command that does it.
	mark, phase, owner string
	// bump is what the restore adds to the revision of the snapshot, and hash the SHA-256 of that, as the check has found it.
	bump uint64
	hash string
}

func find(ctx context.Context, o Options) (*restoration, error) {
	if o.BumpRevision > maxBump {
		return nil, fmt.Errorf("--bump-revision must be at most %d", maxBump)
	}
	r := &restoration{Options: o}
	selector := metav1.ListOptions{LabelSelector: labelPartOf + "=tripod," + labelRelease + "=" + o.Release}
	sets, err := o.Client.AppsV1().StatefulSets(o.Namespace).List(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("cannot look for the etcd of the release: %w", err)
	}
	var names []string
	for i, set := range sets.Items {
		name := set.Spec.Template.Labels[labelEtcd]
		if name == "" {
			continue
		}
		names = append(names, name)
		if name == o.Etcd {
			r.set = &sets.Items[i]
		}
	}
	if r.set == nil {
		return nil, fmt.Errorf("the release %s in the namespace %s has no etcd %s of its own (it has %q)", o.Release, o.Namespace, o.Etcd, names)
	}
	r.read()
	if err := r.checkSet(); err != nil {
		return nil, err
	}
	if err := r.checkResize(ctx); err != nil {
		return nil, err
	}
	r.saving, err = o.Client.BatchV1().CronJobs(o.Namespace).Get(ctx, r.set.Name+"-snapshot", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("the release saves no snapshots, so it does not say where they are: " +
			"set etcd.snapshots.enabled, and etcd.snapshots.s3 or volume")
	}
	if err != nil {
		return nil, err
	}
	if r.location, err = r.locate(); err != nil {
		return nil, err
	}
	deployments, err := o.Client.AppsV1().Deployments(o.Namespace).List(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("cannot look for what uses the etcd: %w", err)
	}
	r.deployments = slices.DeleteFunc(deployments.Items, func(d appsv1.Deployment) bool { return !r.uses(&d) })
	return r, nil
}

// checkSet refuses an etcd that this command cannot restore.
func (r *restoration) checkSet() error {
	if slices.ContainsFunc(r.set.Spec.Template.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "restore" }) {
		return fmt.Errorf("the release still has etcd.restore.snapshot, so %s would then restore that one: "+
			"remove the value by helm upgrade first", r.set.Name)
	}
	if !slices.ContainsFunc(r.set.Spec.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == dataVolume }) {
		return fmt.Errorf("%s keeps no data in volumes (etcd.persistence.enabled), so nothing can be restored", r.set.Name)
	}
	if r.replicas() == 0 {
		return fmt.Errorf("%s is scaled to 0, and this command did not do that: "+
			"scale it up first, or its number of members is not known", r.set.Name)
	}
	return nil
}

// checkResize refuses an etcd whose number of members `tripod etcd resize` is changing.
func (r *restoration) checkResize(ctx context.Context) error {
	unfinished, err := resize.Unfinished(ctx, r.Client, r.Namespace, r.set.Name)
	switch {
	case err != nil:
		return fmt.Errorf("cannot see whether the number of members of %s is being changed: %w", r.set.Name, err)
	case unfinished:
		return fmt.Errorf("a resize of %s has not finished: first run `tripod etcd resize` again", r.set.Name)
	}
	return nil
}

// savedName is how files are called that a release has saved.
var savedName = regexp.MustCompile(`-\d{8}T\d{6}Z\.db$`)

// locate returns where the snapshot is, in the pods of the CronJob.
func (r *restoration) locate() (string, error) {
	args := r.saving.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args
	name := argument(args, "--name=")
	of := func(file string) error {
		if r.OtherCluster || snapshot.IsOf(file, name) {
			return nil
		}
		return fmt.Errorf("%q is not the name of a snapshot of %s, as in %s-20261121T060500Z.db: check --etcd, "+
			"or add --other-cluster if this etcd is to have the data of another one", file, r.set.Name, name)
	}
	if strings.HasPrefix(r.Snapshot, "s3://") {
		if file := path.Base(r.Snapshot); savedName.MatchString(file) {
			return r.Snapshot, of(file)
		}
		return r.Snapshot, nil
	}
	if r.Snapshot == "" || strings.ContainsAny(r.Snapshot, "/\\") {
		return "", fmt.Errorf("%q is neither the name of a snapshot of the release, as in etcd-20261121T060500Z.db, "+
			"nor s3://BUCKET/KEY", r.Snapshot)
	}
	if err := of(r.Snapshot); err != nil {
		return "", err
	}
	directory := argument(args, "--directory=")
	if directory == "" {
		return "", fmt.Errorf("the CronJob %s does not say where it saves snapshots", r.saving.Name)
	}
	return strings.TrimSuffix(directory, "/") + "/" + r.Snapshot, nil
}

// argument returns the value of a flag.
func argument(args []string, prefix string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, prefix); ok {
			return value
		}
	}
	return ""
}

// uses reports whether a Deployment names a member of the etcd.
func (r *restoration) uses(d *appsv1.Deployment) bool {
	member := fmt.Sprintf("//%s-0.%s.", r.set.Name, r.set.Name)
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, member) })
	})
}

// replicas returns the number of members.
func (r *restoration) replicas() int32 { return replicasOf(&r.set.ObjectMeta, r.set.Spec.Replicas) }

// replicasOf returns the number of replicas that an object had before a restore stopped it. An annotation of an object that runs is old.
func replicasOf(meta *metav1.ObjectMeta, now *int32) int32 {
	if now == nil {
		return 1 // the default of the API
	}
	if before, err := strconv.ParseInt(meta.Annotations[annotationReplicas], 10, 32); err == nil && *now == 0 {
		return int32(before)
	}
	return *now
}

// members returns the names of the pods of etcd.
func (r *restoration) members() (names []string) {
	for i := range r.replicas() {
		names = append(names, fmt.Sprintf("%s-%d", r.set.Name, i))
	}
	return names
}

// peerURL returns the URL at which other members reach a member.
func (r *restoration) peerURL(member string) string {
	return fmt.Sprintf("https://%s.%s.%s.svc:2380", member, r.set.Name, r.Namespace)
}

// initialCluster returns all members in the form of etcd's flag.
func (r *restoration) initialCluster() string {
	var all []string
	for _, member := range r.members() {
		all = append(all, member+"="+r.peerURL(member))
	}
	return strings.Join(all, ",")
}
