// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	counterName   = "counter"
	countInterval = 200 * time.Millisecond
)

// counter updates one object again and again, as clients do: each time with the resourceVersion of its last write, and with a retry while
// the API server is down. It reports an error if somebody else changed the object.
type counter struct {
	client  kubernetes.Interface
	stop    context.CancelFunc
	done    sync.WaitGroup
	written int
	err     error
}

func startCounter(t *testing.T, client kubernetes.Interface) *counter {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: counterName}, Data: map[string]string{"n": "0"}}
	object, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c := &counter{client: client, stop: stop}
	c.done.Go(func() { c.run(ctx, object) })
	t.Cleanup(func() { _, _ = c.end() })
	return c
}

func (c *counter) run(ctx context.Context, object *corev1.ConfigMap) {
	ticker := time.NewTicker(countInterval)
	defer ticker.Stop()
	// A write that has begun is waited for, so that it is known whether it succeeded.
	writing := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		next := object.DeepCopy()
		next.Data["n"] = strconv.Itoa(c.written + 1)
		stored, err := c.client.CoreV1().ConfigMaps(namespace).Update(writing, next, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			// Either the last write succeeded although its answer was lost, or somebody else wrote.
			stored, err = c.client.CoreV1().ConfigMaps(namespace).Get(writing, counterName, metav1.GetOptions{})
			if err == nil && stored.Data["n"] != next.Data["n"] {
				c.err = apierrors.NewConflict(corev1.Resource("configmaps"), counterName, nil)
				return
			}
		}
		if err == nil {
			object = stored
			c.written++
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// end stops the counter and returns the number of its writes.
func (c *counter) end() (int, error) {
	c.stop()
	c.done.Wait()
	return c.written, c.err
}

// follower is an informer on the object of the counter. It remembers the events that it saw.
type follower struct {
	mu    sync.Mutex
	last  int
	seen  int
	wrong []string
	// version is the last resourceVersion.
	version string
}

func startFollower(t *testing.T, client kubernetes.Interface) *follower {
	t.Helper()
	f := &follower{}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.see,
		UpdateFunc: func(_, object any) { f.see(object) },
		DeleteFunc: func(object any) { f.lost(object) },
	})
	require.NoError(t, err)
	factory.StartWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	return f
}

func (f *follower) see(object any) {
	configMap, ok := object.(*corev1.ConfigMap)
	if !ok || configMap.Name != counterName {
		return
	}
	n, _ := strconv.Atoi(configMap.Data["n"])
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version != "" {
		if order, err := resourceversion.CompareResourceVersion(configMap.ResourceVersion, f.version); err != nil || order < 0 || n < f.last {
			f.wrong = append(f.wrong, "from "+strconv.Itoa(f.last)+" at "+f.version+" to "+strconv.Itoa(n)+" at "+configMap.ResourceVersion)
		}
	}
	f.last, f.version = n, configMap.ResourceVersion
	f.seen++
}

func (f *follower) lost(object any) {
	if configMap, ok := object.(*corev1.ConfigMap); ok && configMap.Name == counterName {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wrong = append(f.wrong, "the object was lost at "+strconv.Itoa(f.last))
	}
}

// at returns the last value that the informer saw, and descriptions of events that must not happen.
func (f *follower) at() (last int, wrong []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.wrong
}

// remove deletes the object of the counter.
func (c *counter) remove(t *testing.T) {
	t.Helper()
	require.NoError(t, c.client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), counterName, metav1.DeleteOptions{}))
}
