// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of tripod-extensions: those of kube-apiserver that concern custom resources, and a few of its own.
package options

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	"github.com/tripod-k8s/tripod/services/shared/plugins"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

const coreServersFlag = "core-servers"

// Options are the flags of extensions.
type Options struct {
	service.BackendOptions
	policy.AccessOptions
	// ClientCert authenticates direct clients, if they are allowed.
	ClientCert genericoptions.ClientCertAuthenticationOptions

	// CoreServers are the URLs of the replicas of core, in order of preference. BackendsFile replaces them.
	CoreServers []string
	// EndpointRouting sends webhook calls to the endpoints of a Service instead of its cluster IP.
	EndpointRouting bool
}

// Completed are options that were completed and found valid.
type Completed struct {
	*Options
	service.Neighbours
	// Core are the URLs of core.
	Core []addresses.Location
}

// New returns options with kube-apiserver's defaults, except that a shutdown ends watches.
func New() *Options {
	generic := service.NewGenericOptions(newEtcdOptions(), genericoptions.NewSecureServingOptions())
	o := &Options{
		BackendOptions: service.NewBackendOptions(service.NewOptions("extensions", generic)),
		AccessOptions:  policy.NewAccessOptions(newAdmissionOptions(), plugins.ForCustomResources()),
	}
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
	o.AddTripodFlags(sets, "--"+coreServersFlag+" and --aggregator-servers")
	own := sets.FlagSet("tripod")
	own.StringSliceVar(&o.CoreServers, coreServersFlag, o.CoreServers,
		"URLs of the replicas of core (https://host:port), comma separated, or a name whose addresses are replicas "+
			"(dns:///host:port), such as that of a headless Service. This service uses one that is ready.")
	own.BoolVar(&o.EndpointRouting, "enable-aggregator-routing", o.EndpointRouting,
		"Send webhook calls to endpoint IPs rather than cluster IPs.")
	return sets
}

// Validate returns every problem of the flags.
func (o *Options) Validate() []error {
	errs := append(o.BackendOptions.Validate(), o.AccessOptions.Validate()...)
	// --runtime-config is the same for all services, so it may name groups of other services.
	enablement := genericoptions.APIEnablementOptions{RuntimeConfig: settings.RenameCoreGroup(o.APIEnablement.RuntimeConfig)}
	errs = append(errs, enablement.Validate(apiextensionsapiserver.Scheme, clientgoscheme.Scheme, aggregatorscheme.Scheme)...)
	_, notFound := o.find()
	return append(errs, notFound...)
}

// Complete fills in what can be derived from valid flags.
func (o *Options) Complete(context.Context) (*Completed, error) {
	completed, errs := o.find()
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if err := o.ServerRun.Complete(); err != nil {
		return nil, err
	}
	o.Authorization.Complete()
	// The certificate of the service also serves its clients.
	certificate := &o.SecureServing.ServerCert.CertKey
	if certificate.CertFile == "" && certificate.KeyFile == "" {
		certificate.CertFile, certificate.KeyFile = o.ServiceTrust.CertFile, o.ServiceTrust.KeyFile
	}
	return completed, o.ServerRun.DefaultAdvertiseAddress(o.SecureServing.SecureServingOptions)
}

// find says where the other services are.
func (o *Options) find() (*Completed, []error) {
	completed := &Completed{Options: o}
	var errs []error
	completed.Neighbours, errs = o.FindNeighbours()
	switch {
	case o.BackendsFile == "":
		core, wrong := parseCoreServers("--"+coreServersFlag, o.CoreServers)
		completed.Core, errs = core, append(errs, wrong...)
	case len(o.CoreServers) > 0:
		errs = append(errs, fmt.Errorf("--%s takes the place of --%s", addresses.BackendsFileFlag, coreServersFlag))
	case completed.Backends != nil:
		core, err := CoreIn(completed.Backends)
		completed.Core = core
		if err != nil {
			errs = append(errs, err)
		}
	}
	return completed, errs
}

// CoreIn returns where core is.
func CoreIn(backends *addresses.Backends) ([]addresses.Location, error) {
	urls, errs := parseCoreServers("--"+addresses.BackendsFileFlag+": servers of core", backends.Core.Servers)
	return urls, utilerrors.NewAggregate(errs)
}

func parseCoreServers(where string, servers []string) ([]addresses.Location, []error) {
	if len(servers) == 0 {
		return nil, []error{fmt.Errorf("%s: required", where)}
	}
	return link.ParseServers(where, servers, true)
}
