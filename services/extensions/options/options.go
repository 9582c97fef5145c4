// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of tripod-extensions.
package options

import (
	"fmt"
	"maps"
	"net/url"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/server/flagz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	_ "k8s.io/controller-manager/pkg/features/register" // a gate that kube-apiserver knows, too
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	_ "k8s.io/kubernetes/pkg/features" // --feature-gates knows all that kube-apiserver knows

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/link"
	"github.com/tripod-k8s/tripod/internal/hop/rpc"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/policy"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/service/settings"
)

// Options are the options of tripod-extensions. Where kube-apiserver has a flag of the same name, it means the same.
type Options struct {
	Generic       *genericoptions.ServerRunOptions
	Etcd          *genericoptions.EtcdOptions
	SecureServing *genericoptions.SecureServingOptionsWithLoopback
	Audit         *genericoptions.AuditOptions
	// AuditSocket is where the writer of the audit log is, if it is another process.
	AuditSocket   string
	Features      *genericoptions.FeatureOptions
	Authorization *policy.Options
	Admission     *genericoptions.AdmissionOptions
	APIEnablement *genericoptions.APIEnablementOptions
	Egress        *genericoptions.EgressSelectorOptions
	Traces        *genericoptions.TracingOptions
	Metrics       *metrics.Options
	Logs          *logs.Options
	Flagz         flagz.Reader

	ServiceTrust trust.BackendOptions
	// ClientCert is how direct clients are authenticated, where these are allowed.
	ClientCert genericoptions.ClientCertAuthenticationOptions
	Probes     addresses.BindFlag
	GRPC       addresses.BindFlag
	// CoreServers are the URLs of the replicas of core, in order of preference.
	CoreServers []string
	// Aggregator is where the aggregator is.
	Aggregator link.AggregatorOptions
	// BackendsFile says where they are instead of CoreServers and Aggregator.
	BackendsFile string
	// Replica distinguishes replicas on one host.
	Replica string
	// EndpointRouting sends webhook calls to the endpoints of a Service instead of its cluster IP.
	EndpointRouting bool
}

// Completed are options that were completed and found valid.
type Completed struct {
	*Options
	// RuntimeConfig is --runtime-config with all that it says, also about what others serve.
	RuntimeConfig cliflag.ConfigurationMap
	// Backends is what BackendsFile said, if there is one.
	Backends *addresses.Backends
	// CoreURLs are where core is.
	CoreURLs []*url.URL
	// AggregatorURLs are where the aggregator is. There may be none.
	AggregatorURLs []*url.URL
}

// New returns options with kube-apiserver's defaults, except that shutdown ends watches.
func New() *Options {
	o := &Options{
		Generic:       genericoptions.NewServerRunOptions(),
		Etcd:          genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil)),
		SecureServing: genericoptions.NewSecureServingOptions().WithLoopback(),
		Audit:         genericoptions.NewAuditOptions(),
		Features:      genericoptions.NewFeatureOptions(),
		Authorization: policy.NewOptions(),
		Admission:     newAdmissionOptions(),
		APIEnablement: genericoptions.NewAPIEnablementOptions(),
		Egress:        genericoptions.NewEgressSelectorOptions(),
		Traces:        genericoptions.NewTracingOptions(),
		Metrics:       metrics.NewOptions(),
		Logs:          logs.NewOptions(),
		Probes:        service.NewProbesFlag(),
		GRPC:          rpc.NewFlag(),
	}
	trust.SetShutdownDefaults(o.Generic)
	// v1beta1 is how kube-apiserver stores CustomResourceDefinitions: it is the more compact form.
	// https://issue.k8s.io/82292
	storage := &o.Etcd.StorageConfig
	storage.Codec = apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion)
	storage.EncodeVersioner = runtime.NewMultiGroupVersioner(
		apiextensionsv1beta1.SchemeGroupVersion, schema.GroupKind{Group: apiextensionsv1beta1.GroupName})
	return o
}

// Flags returns the flags by section.
func (o *Options) Flags() *cliflag.NamedFlagSets {
	sets := cliflag.NamedFlagSets{}
	o.Generic.AddUniversalFlags(sets.FlagSet("generic"))
	o.Etcd.AddFlags(sets.FlagSet("etcd"))
	o.SecureServing.AddFlags(sets.FlagSet("secure serving"))
	o.Audit.AddFlags(sets.FlagSet("auditing"))
	o.Features.AddFlags(sets.FlagSet("features"))
	o.ClientCert.AddFlags(sets.FlagSet("authentication"))
	o.Authorization.AddFlags(sets.FlagSet("authorization"))
	o.APIEnablement.AddFlags(sets.FlagSet("API enablement"))
	o.Egress.AddFlags(sets.FlagSet("egress selector"))
	o.Admission.AddFlags(sets.FlagSet("admission"))
	o.Metrics.AddFlags(sets.FlagSet("metrics"))
	logsapi.AddFlags(o.Logs, sets.FlagSet("logs"))
	o.Traces.AddFlags(sets.FlagSet("traces"))

	own := sets.FlagSet("tripod")
	o.ServiceTrust.AddFlags(own)
	o.Probes.AddFlags(own)
	o.GRPC.AddFlags(own)
	o.Aggregator.AddFlags(own)
	auditlog.AddFlag(own, &o.AuditSocket)
	addresses.AddBackendsFileFlag(own, &o.BackendsFile, "--core-servers and --aggregator-servers")
	own.StringSliceVar(&o.CoreServers, "core-servers", o.CoreServers,
		"URLs of the replicas of core (https://host:port), comma separated. The first that can be reached is used.")
	own.StringVar(&o.Replica, "replica", o.Replica,
		"Name of this replica, unique among the replicas of extensions on this host. It is part of the API server identity.")
	own.BoolVar(&o.EndpointRouting, "enable-aggregator-routing", o.EndpointRouting,
		"Send webhook calls to endpoint IPs rather than cluster IPs.")
	o.Flagz = flagz.NamedFlagSetsReader{FlagSets: sets}
	return &sets
}

// Complete fills in what can be derived and validates the result.
func (o *Options) Complete() (*Completed, error) {
	completed := &Completed{Options: o, RuntimeConfig: maps.Clone(o.APIEnablement.RuntimeConfig)}
	if err := o.Generic.Complete(); err != nil {
		return nil, err
	}
	o.Authorization.Complete()
	settings.RenameCoreGroup(o.APIEnablement.RuntimeConfig)
	// The certificate of the service is good for serving too.
	certificate := &o.SecureServing.ServerCert.CertKey
	if certificate.CertFile == "" && certificate.KeyFile == "" {
		certificate.CertFile, certificate.KeyFile = o.ServiceTrust.CertFile, o.ServiceTrust.KeyFile
	}
	errs := append(completed.findOthers(), o.validate()...)
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if err := o.Generic.DefaultAdvertiseAddress(o.SecureServing.SecureServingOptions); err != nil {
		return nil, err
	}
	return completed, nil
}

func (o *Options) validate() []error {
	var errs []error
	errs = append(errs, o.ServiceTrust.Validate()...)
	errs = append(errs, o.Probes.Validate()...)
	errs = append(errs, o.GRPC.Validate()...)
	errs = append(errs, o.ServiceTrust.ValidateApart("client-ca-file", o.ClientCert.ClientCA)...)
	if err := settings.Refuse(o.Generic.ComponentGlobalsRegistry); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.Generic.Validate()...)
	errs = append(errs, o.Etcd.Validate()...)
	errs = append(errs, o.SecureServing.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, auditlog.Validate(o.AuditSocket, o.Audit)...)
	errs = append(errs, o.Features.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.validateAdmission()...)
	// --runtime-config is the same on all services, so it may name groups that others serve.
	errs = append(errs, o.APIEnablement.Validate(apiextensionsapiserver.Scheme, clientgoscheme.Scheme, aggregatorscheme.Scheme)...)
	errs = append(errs, o.Egress.Validate()...)
	errs = append(errs, o.Traces.Validate()...)
	errs = append(errs, o.Metrics.Validate()...)
	return errs
}

// findOthers sets where core and the aggregator are.
func (o *Completed) findOthers() []error {
	if o.BackendsFile == "" {
		var core, aggregator []error
		o.CoreURLs, core = parseCoreServers("--core-servers", o.CoreServers)
		o.AggregatorURLs, aggregator = o.Aggregator.Find(nil)
		return append(core, aggregator...)
	}
	if len(o.CoreServers) > 0 {
		return []error{fmt.Errorf("--%s takes the place of --core-servers", addresses.BackendsFileFlag)}
	}
	var err error
	if o.Backends, err = addresses.LoadBackends(o.BackendsFile); err != nil {
		return []error{fmt.Errorf("--%s: %w", addresses.BackendsFileFlag, err)}
	}
	o.CoreURLs, err = CoreIn(o.Backends)
	if err != nil {
		return []error{err}
	}
	var errs []error
	o.AggregatorURLs, errs = o.Aggregator.Find(o.Backends)
	return errs
}

// CoreIn returns where core is by a backends file. Names whose addresses are replicas are not looked up here.
func CoreIn(backends *addresses.Backends) ([]*url.URL, error) {
	urls, errs := parseCoreServers("--"+addresses.BackendsFileFlag+": servers of core", backends.Core.Servers)
	return urls, utilerrors.NewAggregate(errs)
}

func parseCoreServers(where string, servers []string) ([]*url.URL, []error) {
	if len(servers) == 0 {
		return nil, []error{fmt.Errorf("%s: required", where)}
	}
	return link.ParseServers(where, servers)
}
