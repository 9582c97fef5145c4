// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package counter has a client that writes and an informer that watches, both as most clients do it. Tests run them while API servers are
// exchanged, and check whether the clients lost anything.
package counter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/e2e/controlplane"
)

const (
	name     = "counter"
	interval = 200 * time.Millisecond
	// followTimeout leaves time for the backoff of an informer after an outage.
	followTimeout = time.Minute
)

// Counter updates one ConfigMap again and again, as clients do: each time with the resourceVersion of its last write, and with a retry while
// the API server is down. It fails if another client changed the object, or if an informer saw the object lost or going back.
type Counter struct {
	objects  typedcorev1.ConfigMapInterface
	follower follower

	stop    context.CancelFunc
	done    sync.WaitGroup
	written int
	err     error
}

// Start starts a counter in a namespace. It ends with the test, if not before.
func Start(t *testing.T, client kubernetes.Interface, namespace string) *Counter {
	t.Helper()
	c := &Counter{objects: client.CoreV1().ConfigMaps(namespace)}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": "0"}}
	object, err := c.objects.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	c.follower.start(t, client, namespace)
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	c.done.Go(func() { c.run(ctx, object) })
	t.Cleanup(c.wait)
	return c
}

// End stops the writes, and checks that the informer has seen the last of them and nothing that must not happen. It removes the object.
func (c *Counter) End(t *testing.T) {
	t.Helper()
	c.wait()
	if c.err != nil || c.written == 0 {
		t.Errorf("the counter wrote %d times and failed: %v", c.written, c.err)
	}
	err := controlplane.Eventually(t.Context(), followTimeout, "the informer follows", func(context.Context) error {
		if last, _ := c.follower.at(); last != c.written {
			return fmt.Errorf("the informer is at %d of %d", last, c.written)
		}
		return nil
	})
	require.NoError(t, err)
	if _, wrong := c.follower.at(); len(wrong) > 0 {
		t.Errorf("the informer saw events that must not happen:\n%s", strings.Join(wrong, "\n"))
	}
	t.Logf("the informer saw the last of %d writes", c.written)
	require.NoError(t, c.objects.Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func (c *Counter) wait() {
	c.stop()
	c.done.Wait()
}

func (c *Counter) run(ctx context.Context, object *corev1.ConfigMap) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	// A write that has begun is waited for, so that it is known whether it succeeded.
	writing := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		next := object.DeepCopy()
		next.Data["n"] = strconv.Itoa(c.written + 1)
		stored, err := c.objects.Update(writing, next, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			// Either the last write succeeded although its answer was lost, or another client wrote.
			stored, err = c.objects.Get(writing, name, metav1.GetOptions{})
			if err == nil && stored.Data["n"] != next.Data["n"] {
				c.err = apierrors.NewConflict(corev1.Resource("configmaps"), name, nil)
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

// follower is an informer on the object of the counter. It remembers the events that it saw.
type follower struct {
	mu    sync.Mutex
	last  int
	wrong []string
	// version is the last resourceVersion.
	version string
}

func (f *follower) start(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
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
}

func (f *follower) see(object any) {
	configMap, ok := object.(*corev1.ConfigMap)
	if !ok || configMap.Name != name {
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
}

func (f *follower) lost(object any) {
	if configMap, ok := object.(*corev1.ConfigMap); ok && configMap.Name == name {
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
