// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// backoff is how long it takes at most until the objects of a core that is back are followed again. Informers take up to a
// minute after some failures, and cannot be configured otherwise (https://issue.k8s.io/136943): for so long revoked permissions
// would be in force. Core sees a few requests a second more.
var backoff = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5, Cap: time.Second}

// follower keeps the objects of a resource of core. It is an informer without handlers, and with a backoff of its own. Only
// what listers ask of an informer is there.
type follower struct {
	cache.SharedIndexInformer
	objects   *objects
	reflector *cache.Reflector
}

func newFollower(core kubernetes.Interface, resource string, kind any) *follower {
	objects := &objects{
		resource: resource,
		Indexer: cache.NewIndexer(
			cache.DeletionHandlingMetaNamespaceKeyFunc,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			cache.WithTransformer(trim),
		),
	}
	source := cache.NewListWatchFromClient(core.RbacV1().RESTClient(), resource, metav1.NamespaceAll, fields.Everything())
	reflector := cache.NewReflectorWithOptions(source, kind, objects, cache.ReflectorOptions{
		Name:    "policy/" + resource,
		Backoff: &backoff,
	})
	return &follower{objects: objects, reflector: reflector}
}

// GetIndexer implements cache.SharedIndexInformer.
func (f *follower) GetIndexer() cache.Indexer { return f.objects }

// HasSynced implements cache.SharedIndexInformer.
func (f *follower) HasSynced() bool { return f.objects.received.Load() }

// objects are those that were received.
type objects struct {
	cache.Indexer
	resource string
	// received is true once all have been.
	received atomic.Bool
}

// Replace implements cache.ReflectorStore. A reflector calls it with the complete list.
func (o *objects) Replace(list []any, resourceVersion string) error {
	if err := o.Indexer.Replace(list, resourceVersion); err != nil {
		return err
	}
	o.received.Store(true)
	o.UpdateResourceVersion(resourceVersion)
	return nil
}

// UpdateResourceVersion implements cache.ResourceVersionUpdater. A reflector calls it after each event.
func (o *objects) UpdateResourceVersion(resourceVersion string) {
	if version, err := strconv.ParseUint(resourceVersion, 10, 64); err == nil {
		reached.WithLabelValues(o.resource).Set(float64(version))
	}
}

// trim drops what decides nothing.
func trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetAnnotations(nil)
		accessor.SetLabels(nil)
	}
	return object, nil
}
