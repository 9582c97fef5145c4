// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// patcher patches an object.
type patcher func(ctx context.Context, kind types.PatchType, patch []byte) error

// moveServices gives everything of the release that uses the etcd the members that it is to have, and returns when no pod uses others.
func (r *resizer) moveServices(ctx context.Context) error {
	selector := metav1.ListOptions{LabelSelector: r.selector()}
	deployments, err := r.Client.AppsV1().Deployments(r.Namespace).List(ctx, selector)
	if err != nil {
		return fmt.Errorf("cannot look for what uses the etcd: %w", err)
	}
	cronJobs, err := r.Client.BatchV1().CronJobs(r.Namespace).List(ctx, selector)
	if err != nil {
		return fmt.Errorf("cannot look for what uses the etcd: %w", err)
	}
	for i := range cronJobs.Items {
		c := &cronJobs.Items[i]
		patch := func(ctx context.Context, kind types.PatchType, data []byte) error {
			_, err := r.Client.BatchV1().CronJobs(r.Namespace).Patch(ctx, c.Name, kind, data, metav1.PatchOptions{})
			return err
		}
		const path = "/spec/jobTemplate/spec/template/spec/containers"
		if err := r.move(ctx, &c.ObjectMeta, path, c.Spec.JobTemplate.Spec.Template.Spec.Containers, patch); err != nil {
			return err
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		patch := func(ctx context.Context, kind types.PatchType, data []byte) error {
			_, err := r.Client.AppsV1().Deployments(r.Namespace).Patch(ctx, d.Name, kind, data, metav1.PatchOptions{})
			return err
		}
		if err := r.move(ctx, &d.ObjectMeta, "/spec/template/spec/containers", d.Spec.Template.Spec.Containers, patch); err != nil {
			return err
		}
	}
	for i := range deployments.Items {
		if err := r.awaitRollout(ctx, &deployments.Items[i]); err != nil {
			return err
		}
	}
	return r.awaitUnused(ctx)
}

// move gives the containers of an object the members, if their arguments name members.
func (r *resizer) move(ctx context.Context, meta *metav1.ObjectMeta, path string, containers []corev1.Container, patch patcher) error {
	var changes []map[string]any
	lists, members := r.membersIn(), r.allURLs()
	for i, container := range containers {
		for j, arg := range container.Args {
			moved := lists.ReplaceAllLiteralString(arg, members)
			if moved == arg {
				continue
			}
			at := path + "/" + strconv.Itoa(i) + "/args/" + strconv.Itoa(j)
			changes = append(changes, map[string]any{"op": "test", "path": at, "value": arg},
				map[string]any{"op": "replace", "path": at, "value": moved})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	data, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	r.Progress(fmt.Sprintf("giving %s the members of %s", meta.Name, r.set))
	if err := patch(ctx, types.JSONPatchType, data); err != nil {
		return fmt.Errorf("cannot change %s: %w", meta.Name, err)
	}
	return r.restoreManagers(ctx, meta.ManagedFields, patch)
}

// restoreManagers leaves what was changed to those who manage the object. Server-side apply, as of Helm 4, would refuse the next upgrade.
func (r *resizer) restoreManagers(ctx context.Context, managers []metav1.ManagedFieldsEntry, patch patcher) error {
	if len(managers) == 0 {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": managers}})
	if err != nil {
		return err
	}
	return patch(ctx, types.MergePatchType, data)
}

// patchSet patches the StatefulSet.
func (r *resizer) patchSet(ctx context.Context, kind types.PatchType, data []byte) error {
	_, err := r.Client.AppsV1().StatefulSets(r.Namespace).Patch(ctx, r.set, kind, data, metav1.PatchOptions{})
	return err
}

// membersIn finds lists of members of the etcd.
func (r *resizer) membersIn() *regexp.Regexp {
	one := strings.Replace(regexp.QuoteMeta(r.serviceURL(0)), regexp.QuoteMeta(r.member(0)), regexp.QuoteMeta(r.set)+"-[0-9]+", 1)
	return regexp.MustCompile(one + "(?:," + one + ")*")
}

// serviceURL returns the URL of a member for services.
func (r *resizer) serviceURL(ordinal int) string {
	return fmt.Sprintf("https://%s:%d", r.host(ordinal), clientPort)
}

func (r *resizer) allURLs() string {
	var all []string
	for i := range r.Members {
		all = append(all, r.serviceURL(i))
	}
	return strings.Join(all, ",")
}

// uses reports whether containers have a member in their arguments that is to go.
func (r *resizer) uses(containers []corev1.Container) bool {
	for _, container := range containers {
		for _, arg := range container.Args {
			for i := r.Members; i < maxMembers; i++ {
				if strings.Contains(arg, r.serviceURL(i)) {
					return true
				}
			}
		}
	}
	return false
}

// awaitRollout returns when a Deployment that uses the etcd has its new pods.
func (r *resizer) awaitRollout(ctx context.Context, d *appsv1.Deployment) error {
	uses := false
	for _, container := range d.Spec.Template.Spec.Containers {
		uses = uses || r.membersIn().MatchString(strings.Join(container.Args, " "))
	}
	if !uses {
		return nil
	}
	return r.poll(ctx, startTimeout, d.Name+" has new pods", func(ctx context.Context) (bool, error) {
		now, err := r.Client.AppsV1().Deployments(r.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		wanted, is := ptr.Deref(now.Spec.Replicas, 1), now.Status
		updated := is.UpdatedReplicas == wanted && is.Replicas == wanted && is.AvailableReplicas >= wanted
		return updated && is.ObservedGeneration >= now.Generation, nil
	})
}

// awaitUnused returns when no pod uses members that are to go, also none that ends.
func (r *resizer) awaitUnused(ctx context.Context) error {
	return r.poll(ctx, startTimeout, "no pod uses the members that go", func(ctx context.Context) (bool, error) {
		pods, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.selector()})
		if err != nil {
			return false, err
		}
		for _, pod := range pods.Items {
			ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if !ended && r.uses(pod.Spec.Containers) {
				return false, fmt.Errorf("the pod %s does", pod.Name)
			}
		}
		return true, nil
	})
}
