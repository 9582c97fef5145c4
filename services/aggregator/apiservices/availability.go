// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"context"
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
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"github.com/tripod-k8s/tripod/services/aggregator/backend"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// Availability keeps the Available condition of APIServices that name core or extensions. Those
// that name nobody, and those of third parties, are kept by kube-aggregator's own controllers.
type Availability struct {
	backends map[string]*backend.Backend
	client   apiregistrationclient.APIServicesGetter
	lister   listers.APIServiceLister
	synced   cache.InformerSynced
	queue    workqueue.TypedRateLimitingInterface[string]
}

// NewAvailability returns the controller.
func NewAvailability(informer informers.APIServiceInformer, client apiregistrationclient.APIServicesGetter, backends ...*backend.Backend) (*Availability, error) {
	a := &Availability{
		backends: map[string]*backend.Backend{},
		client:   client,
		lister:   informer.Lister(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "BackendAvailability"}),
	}
	for _, b := range backends {
		a.backends[b.Name()] = b
		b.Subscribe(func() { a.enqueueAll(b.Name()) })
	}
	registration, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.enqueue,
		UpdateFunc: func(_, now any) { a.enqueue(now) },
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
	<-ctx.Done()
}

func (a *Availability) enqueue(obj any) {
	if service, ok := obj.(*apiregistrationv1.APIService); ok {
		if name, ours := routing.BackendOf(service); ours && name != "" {
			a.queue.Add(service.Name)
		}
	}
}

func (a *Availability) enqueueAll(backendName string) {
	services, err := a.lister.List(labels.Everything())
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
	service, err := a.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	owner, _ := routing.BackendOf(service)
	b, ok := a.backends[owner]
	if !ok {
		return nil
	}
	updated := service.DeepCopy()
	helper.SetAPIServiceCondition(updated, condition(b))
	before := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
	now := helper.GetAPIServiceConditionByType(updated, apiregistrationv1.Available)
	if before != nil && before.Status == now.Status && before.Reason == now.Reason {
		return nil
	}
	_, err = a.client.APIServices().UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func condition(b *backend.Backend) apiregistrationv1.APIServiceCondition {
	c := apiregistrationv1.APIServiceCondition{
		Type:               apiregistrationv1.Available,
		Status:             apiregistrationv1.ConditionTrue,
		LastTransitionTime: metav1.Now(),
		Reason:             "Passed",
		Message:            "all checks passed",
	}
	if ready, why := b.Ready(); !ready {
		c.Status = apiregistrationv1.ConditionFalse
		c.Reason = "NoReplicaReady"
		c.Message = "no replica of " + b.Name() + " is ready: " + why
	}
	return c
}

// ThirdParty returns an informer whose lister knows only the APIServices of third parties, for
// kube-aggregator's controllers that would otherwise look for the Service behind core.
func ThirdParty(informer informers.APIServiceInformer) informers.APIServiceInformer {
	return thirdPartyInformer{informer}
}

type thirdPartyInformer struct{ informers.APIServiceInformer }

func (i thirdPartyInformer) Lister() listers.APIServiceLister {
	return thirdPartyLister{i.APIServiceInformer.Lister()}
}

type thirdPartyLister struct{ listers.APIServiceLister }

func (l thirdPartyLister) Get(name string) (*apiregistrationv1.APIService, error) {
	service, err := l.APIServiceLister.Get(name)
	if err != nil {
		return nil, err
	}
	if _, ours := routing.BackendOf(service); ours {
		return nil, apierrors.NewNotFound(apiregistrationv1.Resource("apiservices"), name)
	}
	return service, nil
}

func (l thirdPartyLister) List(selector labels.Selector) ([]*apiregistrationv1.APIService, error) {
	services, err := l.APIServiceLister.List(selector)
	var filtered []*apiregistrationv1.APIService
	for _, service := range services {
		if _, ours := routing.BackendOf(service); !ours {
			filtered = append(filtered, service)
		}
	}
	return filtered, err
}
