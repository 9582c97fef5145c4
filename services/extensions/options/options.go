// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of tripod-extensions: those of kube-apiserver that concern custom resources, and a few of its own.
package options

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/internal/backend"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/plugins"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// Options are the flags of extensions.
type Options struct {
	backend.Options
	policy.AccessOptions
	// ClientCert authenticates direct clients, if they are allowed.
	ClientCert genericoptions.ClientCertAuthenticationOptions
}

// Completed are options that were completed and found valid.
type Completed struct {
	*Options
	backend.Neighbours
}

// New returns options with kube-apiserver's defaults, except that a shutdown ends watches.
func New() *Options {
	generic := service.NewGenericOptions(newEtcdOptions(), genericoptions.NewSecureServingOptions())
	o := &Options{
		Options:       backend.NewOptions(list.Extensions, generic),
		AccessOptions: policy.NewAccessOptions(newAdmissionOptions(), plugins.ForCustomResources()),
	}
	o.Rights = list.Rights()
	o.ServiceTrust.ClientCAFile = &o.ClientCert.ClientCA
	return o
}

func newEtcdOptions() *genericoptions.EtcdOptions {
	// kube-apiserver stores CustomResourceDefinitions as v1beta1, the more compact form. https://issue.k8s.io/82292
	storage := storagebackend.NewDefaultConfig("/registry",
		apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion))
	storage.EncodeVersioner = runtime.NewMultiGroupVersioner(
		apiextensionsv1beta1.SchemeGroupVersion, schema.GroupKind{Group: apiextensionsv1beta1.GroupName})
	return genericoptions.NewEtcdOptions(storage)
}

// Flags returns the flags by section.
func (o *Options) Flags() *cliflag.NamedFlagSets {
	sets := &cliflag.NamedFlagSets{}
	o.AddGenericFlags(sets)
	o.ClientCert.AddFlags(sets.FlagSet("authentication"))
	o.AccessOptions.AddFlags(sets)
	o.AddTripodFlags(sets)
	return sets
}

// Validate returns every problem of the flags.
func (o *Options) Validate() []error {
	errs := append(o.Options.Validate(), o.AccessOptions.Validate()...)
	// --runtime-config is the same for all services, so it may name groups of other services.
	enablement := genericoptions.APIEnablementOptions{RuntimeConfig: settings.RenameCoreGroup(o.APIEnablement.RuntimeConfig)}
	return append(errs, enablement.Validate(apiextensionsapiserver.Scheme, clientgoscheme.Scheme, aggregatorscheme.Scheme)...)
}

// Complete fills in what can be derived from valid flags.
func (o *Options) Complete(context.Context) (*Completed, error) {
	neighbours, err := o.Options.Complete()
	if err != nil {
		return nil, err
	}
	o.Authorization.Complete()
	return &Completed{Options: o, Neighbours: neighbours}, nil
}
