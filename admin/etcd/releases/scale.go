// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package releases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	pollInterval = time.Second
	// stopTimeout is longer than the grace periods of the chart's pods.
	stopTimeout  = 5 * time.Minute
	startTimeout = 10 * time.Minute
)

// stop stops the Deployments, then etcd.
func (r *restoration) stop(ctx context.Context) error {
	for _, d := range r.deployments {
		r.Progress("stopping " + d.Name)
		if err := r.patchDeployment(ctx, d.Name, stopPatch(replicasOf(&d.ObjectMeta, d.Spec.Replicas))); err != nil {
			return err
		}
	}
	if err := r.awaitStopped(ctx); err != nil {
		return err
	}
	r.Progress("stopping " + r.set.Name)
	err := r.updateOurs(ctx, func(*appsv1.StatefulSet) (map[string]any, error) { return stopPatch(r.replicas()), nil })
	if err != nil {
		return err
	}
	if err := r.awaitGone(ctx, r.set.Name, r.set.Spec.Selector); err != nil {
		return err
	}
	return r.awaitStopped(ctx) // something may have started them meanwhile, and they know the data of before
}

// awaitStopped returns when the Deployments have no pods, and get none.
func (r *restoration) awaitStopped(ctx context.Context) error {
	for _, d := range r.deployments {
		err := r.poll(ctx, stopTimeout, d.Name+" stops", func(ctx context.Context) (bool, error) {
			now, err := r.Client.AppsV1().Deployments(r.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if now.Spec.Replicas == nil || *now.Spec.Replicas != 0 {
				return false, lasting{fmt.Errorf("something else has scaled %s up: stop that first (GitOps, an autoscaler)", d.Name)}
			}
			return now.Status.ObservedGeneration >= now.Generation, nil
		})
		if err == nil {
			err = r.awaitGone(ctx, d.Name, d.Spec.Selector)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRights asks the API server whether it would accept the patches, and changes nothing.
func (r *restoration) checkRights(ctx context.Context) error {
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	data, err := json.Marshal(stopPatch(0))
	if err != nil {
		return err
	}
	for _, d := range r.deployments {
		if _, err := r.Client.AppsV1().Deployments(r.Namespace).Patch(ctx, d.Name, types.MergePatchType, data, options); err != nil {
			return fmt.Errorf("nothing was stopped, because %s could not be: %w", d.Name, err)
		}
	}
	if _, err := r.Client.AppsV1().StatefulSets(r.Namespace).Patch(ctx, r.set.Name, types.MergePatchType, data, options); err != nil {
		return fmt.Errorf("nothing was stopped, because %s could not be: %w", r.set.Name, err)
	}
	return nil
}

// start starts etcd, then the Deployments, for which it does not wait. From the beginning on, an interrupted restore is in the phase.
func (r *restoration) start(ctx context.Context, phase string) error {
	r.Progress("starting " + r.set.Name)
	err := r.updateOurs(ctx, func(now *appsv1.StatefulSet) (map[string]any, error) {
		if r.phase == phaseRestoring {
			if err := r.untouched(now); err != nil {
				return nil, err
			}
		}
		patch := annotate(map[string]any{annotationPhase: phase})
		patch["spec"] = map[string]any{"replicas": r.replicas()}
		return patch, nil
	})
	if err != nil {
		return err
	}
	r.phase = phase
	err = r.poll(ctx, startTimeout, r.set.Name+" is ready", func(ctx context.Context) (bool, error) {
		set, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return set.Status.ObservedGeneration >= set.Generation && set.Status.ReadyReplicas == r.replicas(), nil
	})
	if err != nil {
		return err
	}
	for _, d := range r.deployments {
		r.Progress("starting " + d.Name)
		if err := r.patchDeployment(ctx, d.Name, startPatch(replicasOf(&d.ObjectMeta, d.Spec.Replicas))); err != nil {
			return err
		}
	}
	return nil
}

// end clears the marks of the restore. After an error they may be cleared, too: the answer may have been lost.
func (r *restoration) end(ctx context.Context) error {
	err := r.updateOurs(ctx, func(*appsv1.StatefulSet) (map[string]any, error) {
		return annotate(map[string]any{
			annotationReplicas: nil, annotationRestore: nil, annotationPhase: nil, annotationRun: nil, annotationGeneration: nil,
		}), nil
	})
	if err != nil {
		return fmt.Errorf("its annotation %s may be left (%w): remove it", annotationRestore, err)
	}
	return nil
}

// awaitDeployments returns when the Deployments are available. The restore has ended: an error names the Deployment, and says nothing else.
func (r *restoration) awaitDeployments(ctx context.Context) error {
	for _, d := range r.deployments {
		if err := r.awaitAvailable(ctx, d.Name, replicasOf(&d.ObjectMeta, d.Spec.Replicas)); err != nil {
			return fmt.Errorf("%s is not available (%w): see its pods", d.Name, err)
		}
	}
	return nil
}

func (r *restoration) awaitAvailable(ctx context.Context, name string, replicas int32) error {
	return r.poll(ctx, startTimeout, name+" is available", func(ctx context.Context) (bool, error) {
		d, err := r.Client.AppsV1().Deployments(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return d.Status.ObservedGeneration >= d.Generation && d.Status.AvailableReplicas >= replicas, nil
	})
}

// awaitGone returns when the last pod of an object is gone: a pod that ends still uses etcd, or its volume.
func (r *restoration) awaitGone(ctx context.Context, name string, selector *metav1.LabelSelector) error {
	labels, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return err
	}
	return r.poll(ctx, stopTimeout, "the pods of "+name+" are gone", func(ctx context.Context) (bool, error) {
		// One that has failed, as an evicted one, stays until it is removed.
		pods, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: labels.String(), FieldSelector: "status.phase!=Failed,status.phase!=Succeeded", Limit: 1,
		})
		if err != nil || len(pods.Items) == 0 {
			return err == nil, err
		}
		return false, fmt.Errorf("%s is there", pods.Items[0].Name)
	})
}

// lasting is an error that ends a wait.
type lasting struct{ error }

func (l lasting) Unwrap() error { return l.error }

// poll waits for a condition. Errors of the API server count only if they last.
func (r *restoration) poll(ctx context.Context, timeout time.Duration, what string, condition func(context.Context) (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, func(ctx context.Context) (done bool, _ error) {
		done, last = condition(ctx)
		return done || errors.As(last, &lasting{}), nil
	})
	switch {
	case errors.As(last, &lasting{}):
		return last
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && last != nil:
		return fmt.Errorf("waited %s until %s: %w", timeout, what, last)
	case err != nil:
		return fmt.Errorf("waited %s until %s", timeout, what)
	}
	return nil
}

// Patches of replicas and of the annotation that keeps their number.
func stopPatch(replicas int32) map[string]any {
	patch := annotate(map[string]any{annotationReplicas: strconv.Itoa(int(replicas))})
	patch["spec"] = map[string]any{"replicas": 0}
	return patch
}

func startPatch(replicas int32) map[string]any {
	patch := annotate(map[string]any{annotationReplicas: nil})
	patch["spec"] = map[string]any{"replicas": replicas}
	return patch
}

// patchDeployment patches a Deployment, unless another command has taken over, as while this one was suspended.
func (r *restoration) patchDeployment(ctx context.Context, name string, patch map[string]any) error {
	if _, err := r.current(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = r.Client.AppsV1().Deployments(r.Namespace).Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{})
	return err
}
