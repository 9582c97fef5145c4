// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
)

// manifestWebhooks initializes plugins that read their configuration from files (https://kep.k8s.io/5793), and remembers the webhooks
// that are in these: other services, which are given the same files, may call them.
type manifestWebhooks struct {
	// next is kube-apiserver's initializer.
	next admission.PluginInitializer

	mutating   atomic.Pointer[[]*admissionregistrationv1.MutatingWebhookConfiguration]
	validating atomic.Pointer[[]*admissionregistrationv1.ValidatingWebhookConfiguration]
}

// Initialize implements admission.PluginInitializer.
func (m *manifestWebhooks) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsManifestLoaders); ok {
		m.next.Initialize(&observedPlugin{Interface: plugin, wants: wants, observer: m})
		return
	}
	m.next.Initialize(plugin)
}

// configurations are those that were read last.
func (m *manifestWebhooks) configurations() (
	[]*admissionregistrationv1.MutatingWebhookConfiguration, []*admissionregistrationv1.ValidatingWebhookConfiguration,
) {
	var mutating []*admissionregistrationv1.MutatingWebhookConfiguration
	var validating []*admissionregistrationv1.ValidatingWebhookConfiguration
	if read := m.mutating.Load(); read != nil {
		mutating = *read
	}
	if read := m.validating.Load(); read != nil {
		validating = *read
	}
	return mutating, validating
}

// observedPlugin is a plugin whose manifests the observer receives as well.
type observedPlugin struct {
	admission.Interface
	wants    initializer.WantsManifestLoaders
	observer *manifestWebhooks
}

// SetManifestLoaders implements initializer.WantsManifestLoaders.
func (l *observedPlugin) SetManifestLoaders(loaders *initializer.ManifestLoaders) {
	if loaders == nil {
		return
	}
	own := *loaders
	if load := loaders.LoadMutatingWebhookManifests; load != nil {
		own.LoadMutatingWebhookManifests = func(dir string) ([]*admissionregistrationv1.MutatingWebhookConfiguration, string, error) {
			read, hash, err := load(dir)
			if err == nil {
				l.observer.mutating.Store(&read)
			}
			return read, hash, err
		}
	}
	if load := loaders.LoadValidatingWebhookManifests; load != nil {
		own.LoadValidatingWebhookManifests = func(dir string) ([]*admissionregistrationv1.ValidatingWebhookConfiguration, string, error) {
			read, hash, err := load(dir)
			if err == nil {
				l.observer.validating.Store(&read)
			}
			return read, hash, err
		}
	}
	l.wants.SetManifestLoaders(&own)
}
