// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"

	"k8s.io/apiserver/pkg/admission"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/admission/ending"
)

// applyAdmission sets up the admission plugins. Policies may take parameters of any kind, so their clients see the API of core and of this
// server as one.
func (c *Config) applyAdmission(o *genericoptions.AdmissionOptions, whole *rest.Config, initializers []admission.PluginInitializer) error {
	clientset, err := kubernetes.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(whole)
	if err != nil {
		return fmt.Errorf("clients for admission: %w", err)
	}
	o.Decorators = ending.Decorators(append(o.Decorators, withRetry(c.others.core)))
	return o.ApplyTo(&c.Generic.Config, c.Generic.SharedInformerFactory, clientset, dynamicClient,
		utilfeature.DefaultFeatureGate, c.Generic.EffectiveVersion,
		append(initializers, webhookinitializer.NewPluginInitializer(c.WebhookClients, c.Services))...)
}
