// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ending passes deletions of namespaces that another process has admitted to the admission plugin NamespaceLifecycle.
//
// In kube-apiserver, the plugin admits the deletion, and asks storage instead of its cache for the next 30 s. So nothing is created in a
// namespace once its deletion has been answered. Here the aggregator says in the envelope of a request that it passed on such a deletion.
package ending

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// Decorators returns the decorators with this package's before them: it decorates the plugin itself, and no other decorator sees the
// deletions.
func Decorators(others admission.Decorators) admission.Decorators {
	return append(admission.Decorators{admission.DecoratorFunc(decorate)}, others...)
}

func decorate(plugin admission.Interface, name string) admission.Interface {
	if mutation, ok := plugin.(admission.MutationInterface); ok && name == lifecycle.PluginName {
		return &informed{mutation}
	}
	return plugin
}

// informed is the plugin.
type informed struct{ admission.MutationInterface }

// Admit implements admission.MutationInterface.
func (i *informed) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if trust.NamespaceEnds(ctx) && a.GetNamespace() != "" && a.GetResource().GroupResource() != namespaces.GroupResource() {
		// The plugin refuses to delete some namespaces. That is for core to say.
		_ = i.MutationInterface.Admit(ctx, deletion(a), o)
	}
	return i.MutationInterface.Admit(ctx, a, o)
}

// deletion is that of the namespace of an object.
func deletion(a admission.Attributes) admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Namespace"), a.GetNamespace(), a.GetNamespace(),
		namespaces, "", admission.Delete, &metav1.DeleteOptions{}, false, a.GetUserInfo())
}
