// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

const (
	// requestTimeout is how long clients wait for an answer.
	requestTimeout = 5 * time.Second
	// workers is the number of clients per resource, and interval the pause between the requests of one.
	workers  = 6
	interval = 150 * time.Millisecond
	// namespace is where the clients work.
	namespace = "faults"
)

// custom is the custom resource that clients use.
var custom = traffic.Custom("Ant")

// kinds are the kinds of requests, as the columns of the table are called.
var kinds = []string{"reads", "writes", "custom reads", "custom writes", "tokens", "discovery"}

const (
	tokens    = "tokens"
	discovery = "discovery"
)

// count has the number of requests sent, and of those that failed.
type count struct {
	Sent   int `json:"sent"`
	Failed int `json:"failed"`
}

// load has the clients during one fault.
type load struct {
	cluster   *cluster
	client    *traffic.Client
	workers   []*traffic.Worker
	informers []informer

	stopWork, stopWatch context.CancelFunc
	working             sync.WaitGroup

	mu          sync.Mutex
	counts      map[string]count
	lastFailure time.Time
	messages    map[string]int
}

// startLoad starts clients. If proxied is set, a proxy authenticates them. The number keeps the objects of loads apart.
func (c *cluster) startLoad(ctx context.Context, number int, proxied bool) (*load, error) {
	config := c.admin()
	if proxied {
		config = c.proxy()
	}
	client, err := traffic.Dial(config, 4)
	if err != nil {
		return nil, err
	}
	client.Timeout = requestTimeout
	l := &load{cluster: c, client: client, counts: map[string]count{}, messages: map[string]int{}}
	watching, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	l.stopWatch = stopWatch
	if err := l.startInformers(ctx, watching); err != nil {
		stopWatch()
		return nil, err
	}
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	l.stopWork = stopWork
	for i := range 2 * workers {
		resource := []traffic.Resource{traffic.ConfigMaps, custom}[i%2]
		w := traffic.NewWorker(client, resource, namespace, number*100+i)
		w.Failed = func(f traffic.Failure) { l.failed(f.Ended, f.Err) }
		l.workers = append(l.workers, w)
		l.working.Go(func() { w.Run(working, interval) })
	}
	l.repeat(working, tokens, l.newToken)
	l.repeat(working, discovery, func(ctx context.Context) error {
		_, err := l.send(ctx, http.MethodGet, "/apis", nil)
		return err
	})
	c.load = l
	return l, nil
}

// repeat keeps sending requests of a kind.
func (l *load) repeat(ctx context.Context, kind string, send func(context.Context) error) {
	l.working.Go(func() {
		for tick := time.NewTicker(interval); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			err := send(context.WithoutCancel(ctx))
			l.mu.Lock()
			counted := l.counts[kind]
			counted.Sent++
			if err != nil {
				counted.Failed++
			}
			l.counts[kind] = counted
			l.mu.Unlock()
			if err != nil {
				l.failed(time.Now(), fmt.Errorf("%s: %w", kind, err))
			}
		}
	})
}

func (l *load) send(ctx context.Context, method, path string, body []byte) (traffic.Answer, error) {
	answer, err := l.client.Send(ctx, method, path, body)
	if err == nil {
		err = answer.Expect(http.StatusOK, http.StatusCreated)
	}
	return answer, err
}

// newToken requests a token of a ServiceAccount and uses it.
func (l *load) newToken(ctx context.Context) error {
	token, err := l.cluster.newToken(ctx, "default")
	if err != nil {
		return err
	}
	return ask(ctx, l.cluster.anonymous, l.cluster.url, token, "/api/v1/namespaces/"+namespace+"/configmaps/none")
}

// failed records when and why the last request failed.
func (l *load) failed(at time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastFailure = at
	message, _, _ := strings.Cut(rootOf(err).Error(), "\n")
	l.messages[message[:min(len(message), 200)]]++
}

func rootOf(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

func (l *load) failedLast() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastFailure
}

// reasons returns why requests failed, most frequent first.
func (l *load) reasons() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	messages := slices.SortedFunc(maps.Keys(l.messages), func(a, b string) int { return l.messages[b] - l.messages[a] })
	var reasons []string
	for _, message := range messages[:min(len(messages), 5)] {
		reasons = append(reasons, fmt.Sprintf("%d × %s", l.messages[message], message))
	}
	return reasons
}

// finish stops the clients. It returns the number of requests, and the acknowledged writes that are lost.
func (l *load) finish(ctx context.Context) (counts map[string]count, lost []string, err error) {
	l.stopWork()
	l.working.Wait()
	defer l.client.Close()
	defer l.stopWatch()
	l.cluster.load = nil
	counts = l.counts
	for _, w := range l.workers {
		for _, span := range w.Spans {
			counted := counts[kindOf(span)]
			counted.Sent++
			counts[kindOf(span)] = counted
		}
		for _, f := range w.Failures {
			counted := counts[kindOf(f.Span)]
			counted.Failed++
			counts[kindOf(f.Span)] = counted
			if f.Wrong {
				lost = append(lost, f.String())
			}
		}
	}
	var missing []string
	err = framework.Poll(ctx, "what is stored can be read", func(ctx context.Context) (err error) {
		missing, err = traffic.Lost(ctx, l.workers)
		return err
	})
	if err != nil {
		return counts, lost, err
	}
	lost = append(lost, missing...)
	for _, i := range l.informers {
		if err := i.caughtUp(ctx); err != nil {
			lost = append(lost, err.Error())
		}
	}
	return counts, lost, framework.Poll(ctx, "objects are removed", l.empty)
}

// empty deletes what the clients have written.
func (l *load) empty(ctx context.Context) error {
	for _, r := range []traffic.Resource{traffic.ConfigMaps, custom} {
		if _, err := l.send(ctx, http.MethodDelete, r.Collection(namespace), nil); err != nil {
			return fmt.Errorf("cannot remove objects: %w", err)
		}
	}
	return nil
}

func kindOf(s traffic.Span) string {
	kind := "writes"
	if s.Method == http.MethodGet {
		kind = "reads"
	}
	if strings.Contains(s.Path, custom.Plural) {
		return "custom " + kind
	}
	return kind
}

// informer is a client that keeps a copy of all objects, like a controller.
type informer struct {
	resource schema.GroupVersionResource
	client   dynamic.Interface
	informer cache.SharedIndexInformer
}

func (l *load) startInformers(ctx, watching context.Context) error {
	config := l.cluster.admin()
	config.Timeout = 0 // a timeout would end watches
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Group: "example.com", Version: "v1", Resource: custom.Plural},
	} {
		l.informers = append(l.informers, informer{resource, client, factory.ForResource(resource).Informer()})
	}
	factory.Start(watching.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("cannot watch %s: %w", resource, ctx.Err())
		}
	}
	return nil
}

// caughtUp waits until the copy is complete, and returns an error if that takes too long.
func (i informer) caughtUp(ctx context.Context) error {
	return framework.Poll(ctx, "a controller knows all "+i.resource.Resource, func(ctx context.Context) error {
		list, err := i.client.Resource(i.resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		want, got := map[string]string{}, map[string]string{}
		for _, o := range list.Items {
			want[o.GetName()] = o.GetResourceVersion()
		}
		for _, o := range i.informer.GetStore().List() {
			o := o.(metav1.Object)
			got[o.GetName()] = o.GetResourceVersion()
		}
		if !maps.Equal(want, got) {
			return fmt.Errorf("it has %d objects, and %d are stored", len(got), len(want))
		}
		return nil
	})
}
