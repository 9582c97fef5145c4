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
// that are in these: who is given the same files by other services may call them.
type manifestWebhooks struct {
	// next is kube-apiserver's initializer.
	next admission.PluginInitializer

	mutating   atomic.Pointer[[]*admissionregistrationv1.MutatingWebhookConfiguration]
	validating atomic.Pointer[[]*admissionregistrationv1.ValidatingWebhookConfiguration]
}

// Initialize implements admission.PluginInitializer.
func (m *manifestWebhooks) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsManifestLoaders); ok {
		m.next.Initialize(&listening{Interface: plugin, wants: wants, heard: m})
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

// listening is a plugin whose loaders are listened to.
type listening struct {
	admission.Interface
	wants initializer.WantsManifestLoaders
	heard *manifestWebhooks
}

// SetManifestLoaders implements initializer.WantsManifestLoaders.
func (l *listening) SetManifestLoaders(loaders *initializer.ManifestLoaders) {
	if loaders == nil {
		return
	}
	own := *loaders
	if load := loaders.LoadMutatingWebhookManifests; load != nil {
		own.LoadMutatingWebhookManifests = func(dir string) ([]*admissionregistrationv1.MutatingWebhookConfiguration, string, error) {
			read, hash, err := load(dir)
			if err == nil {
				l.heard.mutating.Store(&read)
			}
			return read, hash, err
		}
	}
	if load := loaders.LoadValidatingWebhookManifests; load != nil {
		own.LoadValidatingWebhookManifests = func(dir string) ([]*admissionregistrationv1.ValidatingWebhookConfiguration, string, error) {
			read, hash, err := load(dir)
			if err == nil {
				l.heard.validating.Store(&read)
			}
			return read, hash, err
		}
	}
	l.wants.SetManifestLoaders(&own)
}
