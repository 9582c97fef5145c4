// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	coreinformers "k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/admission/loopback"
)

// applyAdmission sets up the admission plugins that concern APIServices. Webhooks and policies come from core. What policies
// and webhooks refer to may be anywhere, so their clients see the API of all services, as kube-apiserver's do.
func (c *Config) applyAdmission() error {
	o, generic := c.options, &c.generic.Config
	whole, err := loopback.Whole(generic.LoopbackClientConfig, c.knowsGroups)
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	services, err := loopback.NewServiceResolver(c.generic.SharedInformerFactory, c.options.EnableAggregatorRouting)
	if err != nil {
		return err
	}
	followed := &admissionInformers{SharedInformerFactory: c.generic.SharedInformerFactory}
	err = o.Admission.ApplyTo(generic, followed, clientset, dynamicClient, utilfeature.DefaultFeatureGate, generic.EffectiveVersion,
		webhookinitializer.NewPluginInitializer(
			webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, generic.EgressSelector, whole, generic.TracerProvider), services),
		c.webhooks.manifests, // for configuration by files
	)
	generic.AdmissionControl = &afterCore{next: generic.AdmissionControl, received: followed.received}
	return err
}

// admissionInformers are those that plugins ask for when they are made. Webhooks and policies follow core. There is no
// namespace: plugins wait for namespaces although they never look for that of an APIService.
type admissionInformers struct {
	informers.SharedInformerFactory

	mu       sync.Mutex
	followed []cache.SharedIndexInformer
}

func (f *admissionInformers) Core() coreinformers.Interface { return coreinformers.New(f, "", nil) }

func (f *admissionInformers) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, "", nil)
}

// InformerFor implements internalinterfaces.SharedInformerFactory.
func (f *admissionInformers) InformerFor(object runtime.Object, make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	if _, isNamespace := object.(*corev1.Namespace); isNamespace {
		return noNamespaces{cache.NewSharedIndexInformer(nil, object, 0, nil)}
	}
	informer := f.SharedInformerFactory.InformerFor(object, make)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed = append(f.followed, informer)
	return informer
}

// received reports whether all webhooks and policies were received once. It stays so while core is away.
func (f *admissionInformers) received() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, informer := range f.followed {
		if !informer.HasSynced() {
			return false
		}
	}
	f.followed = nil
	return true
}

// noNamespaces never has an object, and has seen all there is.
type noNamespaces struct{ cache.SharedIndexInformer }

func (noNamespaces) HasSynced() bool { return true }

// afterCore asks plugins once core has sent all webhooks and policies. Before, a client that changes an APIService is asked
// to try again, where plugins would have it wait for seconds and then forbid it. Only what the aggregator itself says of their
// availability is written even so: an aggregator that starts while core is away must not leave that as it was.
type afterCore struct {
	next     admission.Interface
	received func() bool
}

var (
	_ admission.MutationInterface   = &afterCore{}
	_ admission.ValidationInterface = &afterCore{}
)

// Handles implements admission.Interface.
func (p *afterCore) Handles(operation admission.Operation) bool { return p.next.Handles(operation) }

// Admit implements admission.MutationInterface.
func (p *afterCore) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !p.received() {
		return admitBeforeCore(a)
	}
	if next, ok := p.next.(admission.MutationInterface); ok {
		return next.Admit(ctx, a, o)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *afterCore) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !p.received() {
		return admitBeforeCore(a)
	}
	if next, ok := p.next.(admission.ValidationInterface); ok {
		return next.Validate(ctx, a, o)
	}
	return nil
}

// retryAfter is when clients may try again, in seconds.
const retryAfter = 1

func admitBeforeCore(a admission.Attributes) error {
	if a.GetSubresource() == "status" && a.GetUserInfo().GetName() == user.APIServerUser {
		return nil
	}
	status := apierrors.NewServiceUnavailable("admission does not know the webhooks and policies of core yet")
	status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return status
}
