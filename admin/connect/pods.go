// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// pods follows the aggregators of a release.
type pods struct {
	informers informers.SharedInformerFactory
	store     cache.Store
	// changed has an element after a change.
	changed chan struct{}
}

// followPods returns when it has seen all pods. It follows them until ctx ends.
func followPods(ctx context.Context, client kubernetes.Interface, r *Release) (*pods, error) {
	selector := func(o *metav1.ListOptions) { o.LabelSelector = r.selector() }
	// The informer repeats in silence what the user has no right to. So ask once before.
	var options metav1.ListOptions
	selector(&options)
	if _, err := client.CoreV1().Pods(r.Namespace).List(ctx, options); err != nil {
		return nil, fmt.Errorf("cannot list the pods of the release %s: %w", r.Name, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(r.Namespace), informers.WithTweakListOptions(selector))
	informer := factory.Core().V1().Pods().Informer()
	p := &pods{informers: factory, store: informer.GetStore(), changed: make(chan struct{}, 1)}
	notify := func() {
		select {
		case p.changed <- struct{}{}:
		default: // it is notified already
		}
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		factory.Shutdown()
		return nil, errors.Join(errors.New("cannot follow the pods of the release"), context.Cause(ctx))
	}
	return p, nil
}

// ready returns the pods that serve and do not terminate, the one with the name avoid last.
func (p *pods) ready(avoid string) []*corev1.Pod {
	var ready []*corev1.Pod
	for _, item := range p.store.List() {
		if pod := item.(*corev1.Pod); isReady(pod) {
			ready = append(ready, pod)
		}
	}
	slices.SortFunc(ready, func(a, b *corev1.Pod) int {
		if (a.Name == avoid) != (b.Name == avoid) {
			if a.Name == avoid {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return ready
}

// serves reports whether the pod with this name is still ready.
func (p *pods) serves(name string) bool {
	return slices.ContainsFunc(p.ready(""), func(pod *corev1.Pod) bool { return pod.Name == name })
}

func (p *pods) count() int { return len(p.store.List()) }

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// wait returns after a change, or after so long.
func (p *pods) wait(ctx context.Context, longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-p.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
