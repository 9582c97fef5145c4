// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	availabilitymetrics "k8s.io/kube-aggregator/pkg/controllers/status/metrics"

	"github.com/tripod-k8s/tripod/services/aggregator/peers/aggregated"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// contradictionDelay is how long an aggregator waits before it contradicts another one. Mostly one of them knows of a change a moment
// before the other. If they really disagree, they must not overwrite each other at full speed.
const contradictionDelay = 10 * time.Second

// AggregatedServers knows the aggregated API servers.
type AggregatedServers interface {
	// HasSynced reports whether all Services were seen.
	HasSynced() bool
	// State is false while nothing is known: until all Services were seen, for instance.
	State(apiService string) (aggregated.State, bool)
	// Subscribe calls the function when the state of a server changes. It must not block.
	Subscribe(notify func(apiService string))
}

// AvailabilityConfig is what Availability needs.
type AvailabilityConfig struct {
	Informer          informers.APIServiceInformer
	Client            apiregistrationclient.APIServicesGetter
	Backends          []*upstream.Backend
	AggregatedServers AggregatedServers
	Metrics           *availabilitymetrics.Metrics
}

// Availability keeps the Available condition of APIServices that name a server: core, extensions or an aggregated API server.
// kube-aggregator's own controller keeps the others.
type Availability struct {
	AvailabilityConfig
	backends map[string]*upstream.Backend
	synced   cache.InformerSynced
	queue    workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// said has the last verdict of this aggregator on each APIService.
	said map[string]saying
}

// saying is a verdict that was written.
type saying struct {
	verdict
	at time.Time
}

// NewAvailability returns the controller.
func NewAvailability(config AvailabilityConfig) (*Availability, error) {
	a := &Availability{
		AvailabilityConfig: config,
		backends:           map[string]*upstream.Backend{},
		said:               map[string]saying{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "RemoteAvailability"}),
	}
	for _, b := range config.Backends {
		a.backends[b.Name()] = b
		b.Subscribe(func() { a.enqueueAll(b.Name()) })
	}
	config.AggregatedServers.Subscribe(a.queue.Add)
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			a.queue.Add(key)
		}
	}
	registration, err := config.Informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, now any) { enqueue(now) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return nil, err
	}
	a.synced = registration.HasSynced
	return a, nil
}

// Run updates conditions until the context ends.
func (a *Availability) Run(ctx context.Context) {
	defer a.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), a.synced) {
		return
	}
	for range 5 {
		go wait.UntilWithContext(ctx, a.work, time.Second)
	}
	// Services are seen once core answers. The conditions of core's own APIServices must not wait for that.
	if cache.WaitForCacheSync(ctx.Done(), a.AggregatedServers.HasSynced) {
		a.enqueueAll("")
	}
	<-ctx.Done()
}

// enqueueAll looks at the APIServices of a backend, or of those that name none of them.
func (a *Availability) enqueueAll(backendName string) {
	services, err := a.Informer.Lister().List(labels.Everything())
	if err != nil {
		return // a lister reads memory and has no errors
	}
	for _, service := range services {
		if name, _ := routing.BackendOf(service); name == backendName {
			a.queue.Add(service.Name)
		}
	}
}

func (a *Availability) work(ctx context.Context) {
	for {
		name, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if err := a.sync(ctx, name); err != nil {
			klog.V(2).InfoS("Updating the availability of an APIService failed, trying again", "apiService", name, "err", err)
			a.queue.AddRateLimited(name)
		} else {
			a.queue.Forget(name)
		}
		a.queue.Done(name)
	}
}

func (a *Availability) sync(ctx context.Context, name string) error {
	service, err := a.Informer.Lister().Get(name)
	if apierrors.IsNotFound(err) {
		a.forget(name)
		a.Metrics.ForgetAPIService(name)
		return nil
	}
	if err != nil {
		return err
	}
	now, ok := a.judge(service)
	if !ok {
		return nil
	}
	updated := service.DeepCopy()
	helper.SetAPIServiceCondition(updated, now.condition())
	a.Metrics.SetUnavailableGauge(updated)
	if !a.shouldSay(service, now) {
		return nil
	}
	_, err = a.Client.APIServices().UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	a.Metrics.SetUnavailableCounter(service, updated)
	a.note(name, saying{now, time.Now()})
	return nil
}

// judge is false for an APIService without a verdict.
func (a *Availability) judge(service *apiregistrationv1.APIService) (verdict, bool) {
	switch owner, ours := routing.BackendOf(service); {
	case !ours:
		if state, known := a.AggregatedServers.State(service.Name); known {
			return ofAggregated(state)
		}
	case a.backends[owner] != nil:
		return ofBackend(owner, a.backends[owner].Replicas())
	}
	return verdict{}, false
}

// shouldSay decides whether to write a verdict. If this aggregator has written it before, another one wrote what is there now, or the own
// verdict is still on its way here. So this aggregator waits for a while, and forever if only the words differ.
func (a *Availability) shouldSay(service *apiregistrationv1.APIService, now verdict) bool {
	before := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
	said := a.lastSaid(service.Name)
	news := said.verdict.status != now.status || said.reason != now.reason || said.facts != now.facts
	switch {
	case before != nil && before.Status == now.status && before.Reason == now.reason:
		if before.Message != now.message && news {
			return true
		}
		if news {
			// Another aggregator wrote it.
			a.note(service.Name, saying{now, time.Now()})
		}
		return false
	case news:
		return true
	}
	if left := contradictionDelay - time.Since(said.at); left > 0 {
		a.queue.AddAfter(service.Name, left)
		return false
	}
	return true
}

func (a *Availability) lastSaid(name string) saying {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.said[name]
}

func (a *Availability) note(name string, s saying) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said[name] = s
}

func (a *Availability) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.said, name)
}

func (v *verdict) condition() apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: v.status, Reason: v.reason, Message: v.message, LastTransitionTime: metav1.Now(),
	}
}
