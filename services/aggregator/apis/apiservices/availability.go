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

// Claims knows which backends claim a group-version.
type Claims interface {
	// Conflict says which other backends claim the group-version of an APIService, or returns "" if there are none. It is false until that is
	// certain.
	Conflict(service *apiregistrationv1.APIService) (message string, certain bool)
	// Subscribe calls the function when other backends claim an APIService now, or no longer. It must not block.
	Subscribe(notify func(apiService string))
}

// AvailabilityConfig is what Availability needs.
type AvailabilityConfig struct {
	Informer          informers.APIServiceInformer
	Client            apiregistrationclient.APIServicesGetter
	Backends          []*upstream.Backend
	AggregatedServers AggregatedServers
	Claims            Claims
	Metrics           *availabilitymetrics.Metrics
}

// Availability keeps the Available condition of APIServices that name a server: a backend or an aggregated API server.
// kube-aggregator's own controller keeps the others. It keeps the condition Conflict of all APIServices.
type Availability struct {
	AvailabilityConfig
	names    routing.Backends
	backends map[string]*upstream.Backend
	synced   cache.InformerSynced
	queue    workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// written has the last verdicts of this aggregator on each APIService.
	written map[string]map[apiregistrationv1.APIServiceConditionType]writtenVerdict
}

// writtenVerdict is a verdict that was written.
type writtenVerdict struct {
	verdict
	at time.Time
}

// NewAvailability returns the controller.
func NewAvailability(config AvailabilityConfig) (*Availability, error) {
	a := &Availability{
		AvailabilityConfig: config,
		backends:           map[string]*upstream.Backend{},
		written:            map[string]map[apiregistrationv1.APIServiceConditionType]writtenVerdict{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "RemoteAvailability"}),
	}
	for _, b := range config.Backends {
		a.names = append(a.names, b.Name())
		a.backends[b.Name()] = b
		b.Subscribe(func() { a.enqueueAll(b.Name()) })
	}
	config.AggregatedServers.Subscribe(a.queue.Add)
	config.Claims.Subscribe(a.queue.Add)
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
		if name, _ := a.names.Of(service); name == backendName {
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
	updated := service.DeepCopy()
	var written []verdict
	for _, now := range a.judge(service) {
		if now.kind == apiregistrationv1.Available {
			a.setGauge(service, now)
		}
		if a.shouldSay(service, now) {
			now.applyTo(updated)
			written = append(written, now)
		}
	}
	if len(written) == 0 {
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
	for _, now := range written {
		a.note(name, writtenVerdict{now, time.Now()})
	}
	return nil
}

// setGauge sets kube-aggregator's metric. In kube-apiserver, only APIServices of aggregated API servers can be unavailable. So it is here:
// tripod_backend_endpoints has the state of backends. Otherwise, one backend that is away would be in the metric, and in alerts on it, once
// for each APIService.
func (a *Availability) setGauge(service *apiregistrationv1.APIService, now verdict) {
	if _, ours := a.names.Of(service); ours {
		a.Metrics.SetAPIServiceAvailable(service.Name)
		return
	}
	judged := service.DeepCopy()
	now.applyTo(judged)
	a.Metrics.SetUnavailableGauge(judged)
}

// judge returns the verdicts on an APIService that are certain.
func (a *Availability) judge(service *apiregistrationv1.APIService) []verdict {
	var verdicts []verdict
	if v, certain := a.judgeServer(service); certain {
		verdicts = append(verdicts, v)
	}
	if message, certain := a.Claims.Conflict(service); certain {
		verdicts = append(verdicts, ofClaims(message))
	}
	return verdicts
}

func (a *Availability) judgeServer(service *apiregistrationv1.APIService) (verdict, bool) {
	switch owner, ours := a.names.Of(service); {
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
// verdict is still on its way here. So this aggregator waits for a while. Another cause, with the same facts, is written after that time,
// too. If only details of the message differ, or the other aggregator's words, the condition stays.
func (a *Availability) shouldSay(service *apiregistrationv1.APIService, now verdict) bool {
	before := helper.GetAPIServiceConditionByType(service, now.kind)
	if before == nil {
		before = &apiregistrationv1.APIServiceCondition{}
	}
	last := a.lastWritten(service.Name, now.kind)
	news := last.verdict.status != now.status || last.reason != now.reason || last.facts != now.facts
	same := before.Status == now.status && before.Reason == now.reason
	switch otherCause := last.cause() != now.cause(); {
	case same && before.Message == now.message:
		if news || otherCause {
			a.note(service.Name, writtenVerdict{now, time.Now()}) // another aggregator wrote it
		}
		return false
	case news:
		return true
	case same && !otherCause:
		return false
	}
	if left := contradictionDelay - time.Since(last.at); left > 0 {
		a.queue.AddAfter(service.Name, left)
		return false
	}
	return true
}

func (a *Availability) lastWritten(name string, kind apiregistrationv1.APIServiceConditionType) writtenVerdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.written[name][kind]
}

func (a *Availability) note(name string, s writtenVerdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.written[name] == nil {
		a.written[name] = map[apiregistrationv1.APIServiceConditionType]writtenVerdict{}
	}
	a.written[name][s.kind] = s
}

func (a *Availability) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.written, name)
}
