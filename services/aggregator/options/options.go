// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the command-line flags of the aggregator.
//
// Flags that kube-apiserver has too keep its names, defaults and meaning; they come from the same
// packages. Only the flags in the set "tripod" are the aggregator's own.
package options

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/flagz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	_ "k8s.io/controller-manager/pkg/features/register" // a gate that kube-apiserver knows, too
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	_ "k8s.io/kubernetes/pkg/features" // --feature-gates knows all that kube-apiserver knows

	"github.com/tripod-k8s/tripod/internal/hop/addresses"
	"github.com/tripod-k8s/tripod/internal/hop/trust"
	"github.com/tripod-k8s/tripod/internal/policy"
	"github.com/tripod-k8s/tripod/internal/service"
	"github.com/tripod-k8s/tripod/internal/service/auditlog"
	"github.com/tripod-k8s/tripod/internal/service/settings"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
)

// APIServiceForm is the shape of the APIService objects that the aggregator registers for the
// group-versions of core and extensions.
type APIServiceForm string

const (
	// FormService names the serving backend in spec.service.
	FormService APIServiceForm = "service"
	// FormLocal leaves spec.service empty, as kube-apiserver does, so that both can share an etcd.
	FormLocal APIServiceForm = "local"
)

// defaultEtcdPathPrefix is kube-apiserver's, so that APIServices are found where it keeps them.
const defaultEtcdPathPrefix = "/registry"

// defaultIdentityGrace is long enough for core to restart.
const defaultIdentityGrace = 30 * time.Second

// Options are the flags of the aggregator.
type Options struct {
	ServerRun      *genericoptions.ServerRunOptions
	Etcd           *genericoptions.EtcdOptions
	SecureServing  *genericoptions.SecureServingOptionsWithLoopback
	Audit          *genericoptions.AuditOptions
	Features       *genericoptions.FeatureOptions
	Authentication *AuthenticationOptions
	Authorization  *policy.Options
	Admission      *genericoptions.AdmissionOptions
	APIEnablement  *genericoptions.APIEnablementOptions
	EgressSelector *genericoptions.EgressSelectorOptions
	Traces         *genericoptions.TracingOptions
	Metrics        *metrics.Options
	Logs           *logs.Options

	// ServiceTrust is the identity of the aggregator among Tripod's services.
	ServiceTrust *trust.Options
	// AuditSocket is where the writer of the audit log is, if it is another process.
	AuditSocket string
	// Probes is where health is served to everybody.
	Probes addresses.BindFlag
	// BackendsFile says where the replicas of the backends are, instead of the lists below.
	BackendsFile string
	// CoreServers and ExtensionsServers are the URLs of the replicas of each backend.
	CoreServers       []string
	ExtensionsServers []string
	// CoreGRPCServers are the addresses (host:port) at which the replicas of core are asked about tokens.
	CoreGRPCServers []string
	// ExtensionsGRPCServers are the addresses (host:port) at which the replicas of extensions tell of themselves.
	ExtensionsGRPCServers []string
	// IdentityGrace is how long known tokens are let in while no replica of core can be asked.
	IdentityGrace time.Duration
	// APIServiceForm is the form of the APIServices registered for the backends.
	APIServiceForm string
	// Replica distinguishes aggregators on one host.
	Replica string

	// ProxyClientCertFile and ProxyClientKeyFile identify the aggregator to third-party API servers.
	ProxyClientCertFile string
	ProxyClientKeyFile  string
	// EnableAggregatorRouting sends third-party requests to endpoint addresses instead of cluster IPs.
	EnableAggregatorRouting bool
	// Flagz shows the flags at /flagz. It is set by Flags.
	Flagz flagz.Reader
	// RejectForwardingRedirects refuses to pass redirects of third-party API servers on to clients.
	RejectForwardingRedirects bool
}

// New returns the options with kube-apiserver's defaults, except that a shutdown moves clients elsewhere first.
func New() *Options {
	o := &Options{
		ServerRun: genericoptions.NewServerRunOptions(),
		Etcd: genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig(defaultEtcdPathPrefix,
			aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion, apiregistrationv1beta1.SchemeGroupVersion))),
		SecureServing:  newSecureServingOptions(),
		Audit:          genericoptions.NewAuditOptions(),
		Features:       genericoptions.NewFeatureOptions(),
		Authentication: NewAuthenticationOptions(),
		Authorization:  policy.NewOptions(),
		Admission:      newAdmissionOptions(),
		APIEnablement:  genericoptions.NewAPIEnablementOptions(),
		EgressSelector: genericoptions.NewEgressSelectorOptions(),
		Traces:         genericoptions.NewTracingOptions(),
		Metrics:        metrics.NewOptions(),
		Logs:           logs.NewOptions(),

		ServiceTrust:              &trust.Options{},
		Probes:                    service.NewProbesFlag(),
		IdentityGrace:             defaultIdentityGrace,
		APIServiceForm:            string(FormService),
		RejectForwardingRedirects: true,
	}
	trust.SetShutdownDefaults(o.ServerRun)
	// As kube-apiserver's CreateAggregatorConfig does.
	o.Etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(apiregistrationv1.SchemeGroupVersion,
		schema.GroupKind{Group: apiregistrationv1beta1.GroupName})
	o.Etcd.DefaultStorageMediaType = "application/json"
	return o
}

// newSecureServingOptions returns kube-apiserver's defaults of the public endpoint.
func newSecureServingOptions() *genericoptions.SecureServingOptionsWithLoopback {
	return (&genericoptions.SecureServingOptions{
		BindAddress: net.IPv4zero,
		BindPort:    6443,
		Required:    true,
		ServerCert: genericoptions.GeneratableKeyCert{
			PairName:      "apiserver",
			CertDirectory: "/var/run/kubernetes",
		},
	}).WithLoopback()
}

// Flags returns the flags in named sets, as kube-apiserver groups them in its help.
func (o *Options) Flags() cliflag.NamedFlagSets {
	var fss cliflag.NamedFlagSets
	o.ServerRun.AddUniversalFlags(fss.FlagSet("generic"))
	o.Etcd.AddFlags(fss.FlagSet("etcd"))
	o.SecureServing.AddFlags(fss.FlagSet("secure serving"))
	o.Audit.AddFlags(fss.FlagSet("auditing"))
	o.Features.AddFlags(fss.FlagSet("features"))
	o.Authentication.AddFlags(fss.FlagSet("authentication"))
	o.Authorization.AddFlags(fss.FlagSet("authorization"))
	o.Admission.AddFlags(fss.FlagSet("admission"))
	o.APIEnablement.AddFlags(fss.FlagSet("API enablement"))
	o.EgressSelector.AddFlags(fss.FlagSet("egress selector"))
	o.Metrics.AddFlags(fss.FlagSet("metrics"))
	logsapi.AddFlags(o.Logs, fss.FlagSet("logs"))
	o.Traces.AddFlags(fss.FlagSet("traces"))
	o.addThirdPartyFlags(fss.FlagSet("third-party API servers"))
	o.addOwnFlags(fss.FlagSet("tripod"))
	o.Flagz = flagz.NamedFlagSetsReader{FlagSets: fss}
	return fss
}

func (o *Options) addThirdPartyFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"Client certificate that identifies the aggregator to third-party API servers. It must be signed by the CA in --requestheader-client-ca-file.")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile,
		"Private key for --proxy-client-cert-file.")
	fs.BoolVar(&o.EnableAggregatorRouting, "enable-aggregator-routing", o.EnableAggregatorRouting,
		"Route requests for third-party API servers to endpoint addresses rather than cluster IPs.")
	fs.BoolVar(&o.RejectForwardingRedirects, "aggregator-reject-forwarding-redirect", o.RejectForwardingRedirects,
		"Reject redirects of third-party API servers instead of passing them to the client.")
}

func (o *Options) addOwnFlags(fs *pflag.FlagSet) {
	o.ServiceTrust.AddFlags(fs)
	o.Probes.AddFlags(fs)
	auditlog.AddFlag(fs, &o.AuditSocket)
	addresses.AddBackendsFileFlag(fs, &o.BackendsFile, "--core-servers, --core-grpc-servers, --extensions-servers and --extensions-grpc-servers")
	fs.StringSliceVar(&o.CoreServers, "core-servers", o.CoreServers,
		"URLs (https://host:port, comma separated) of the replicas of core, or a name whose addresses are replicas "+
			"(dns:///host:port), such as that of a headless Service.")
	fs.StringSliceVar(&o.ExtensionsServers, "extensions-servers", o.ExtensionsServers,
		"URLs (https://host:port, comma separated) of the replicas of extensions, or a name whose addresses are replicas "+
			"(dns:///host:port), such as that of a headless Service.")
	fs.StringSliceVar(&o.CoreGRPCServers, "core-grpc-servers", o.CoreGRPCServers,
		"Addresses (host:port, comma separated) at which the replicas of core serve gRPC (--grpc-bind-address there), in the order of --core-servers. One of them at a time is asked about bearer tokens.")
	fs.StringSliceVar(&o.ExtensionsGRPCServers, "extensions-grpc-servers", o.ExtensionsGRPCServers,
		"Addresses (host:port, comma separated) at which the replicas of extensions serve gRPC (--grpc-bind-address there), in the order of --extensions-servers.")
	fs.DurationVar(&o.IdentityGrace, "identity-grace", o.IdentityGrace,
		"How long bearer tokens that are known are let in while no replica of core can be asked about them. Then, and for other tokens, requests are answered with 503.")
	fs.StringVar(&o.APIServiceForm, "apiservice-form", o.APIServiceForm,
		"Form of the APIServices registered for core and extensions: \"service\" names the backend in spec.service, "+
			"\"local\" leaves it empty as kube-apiserver does, so that both can share one etcd.")
	fs.StringVar(&o.Replica, "replica", o.Replica,
		"Name of this replica. Must be unique among the aggregators on one host.")
}

// Validate returns every problem found in the flags.
func (o *Options) Validate() []error {
	var errs []error
	if err := settings.Refuse(o.ServerRun.ComponentGlobalsRegistry); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, o.ServerRun.Validate()...)
	errs = append(errs, o.Etcd.Validate()...)
	errs = append(errs, o.SecureServing.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	errs = append(errs, auditlog.Validate(o.AuditSocket, o.Audit)...)
	errs = append(errs, o.Features.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.validateAdmission()...)
	errs = append(errs, o.EgressSelector.Validate()...)
	errs = append(errs, o.Traces.Validate()...)
	errs = append(errs, o.Metrics.Validate()...)
	errs = append(errs, o.ServiceTrust.Validate()...)
	errs = append(errs, o.Probes.Validate()...)
	errs = append(errs, o.ServiceTrust.ValidateApart("client-ca-file", o.Authentication.ClientCert.ClientCA)...)
	errs = append(errs, o.ServiceTrust.ValidateApart("requestheader-client-ca-file", o.Authentication.RequestHeader.ClientCAFile)...)
	errs = append(errs, o.validateBackends()...)
	if o.IdentityGrace < 0 {
		errs = append(errs, fmt.Errorf("--identity-grace must not be negative"))
	}
	switch APIServiceForm(o.APIServiceForm) {
	case FormService, FormLocal:
	default:
		errs = append(errs, fmt.Errorf("--apiservice-form must be %q or %q, not %q", FormService, FormLocal, o.APIServiceForm))
	}
	if (o.ProxyClientCertFile == "") != (o.ProxyClientKeyFile == "") {
		errs = append(errs, fmt.Errorf("--proxy-client-cert-file and --proxy-client-key-file must be given together"))
	}
	return errs
}

// Backends returns where the replicas of the backends are, from the file if there is one.
func (o *Options) Backends() (*addresses.Backends, error) {
	if o.BackendsFile == "" {
		return &addresses.Backends{
			Core:       addresses.Replicas{Servers: o.CoreServers, GRPC: o.CoreGRPCServers},
			Extensions: addresses.Replicas{Servers: o.ExtensionsServers, GRPC: o.ExtensionsGRPCServers},
		}, nil
	}
	backends, err := addresses.LoadBackends(o.BackendsFile)
	if err != nil {
		return nil, fmt.Errorf("--backends-file: %w", err)
	}
	if len(backends.Core.GRPC) == 0 || len(backends.Extensions.GRPC) == 0 {
		return nil, fmt.Errorf("--backends-file: %s does not say where core and extensions serve gRPC", o.BackendsFile)
	}
	return backends, nil
}

func (o *Options) validateBackends() []error {
	if o.BackendsFile != "" {
		if len(o.CoreServers)+len(o.CoreGRPCServers)+len(o.ExtensionsServers)+len(o.ExtensionsGRPCServers) > 0 {
			return []error{fmt.Errorf("--backends-file takes the place of --core-servers, --core-grpc-servers, --extensions-servers and --extensions-grpc-servers")}
		}
		if _, err := o.Backends(); err != nil {
			return []error{err}
		}
		return nil
	}
	errs := validateServers("core-servers", o.CoreServers)
	errs = append(errs, validateServers("extensions-servers", o.ExtensionsServers)...)
	errs = append(errs, validateAddresses("core-grpc-servers", o.CoreGRPCServers, o.CoreServers)...)
	return append(errs, validateAddresses("extensions-grpc-servers", o.ExtensionsGRPCServers, o.ExtensionsServers)...)
}

func validateServers(flag string, servers []string) []error {
	if len(servers) == 0 {
		return []error{fmt.Errorf("--%s is required: give the URL of at least one replica, such as https://127.0.0.1:6444", flag)}
	}
	var errs []error
	for _, server := range servers {
		if _, err := addresses.OfServer(server); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	return errs
}

func validateAddresses(flag string, grpcAddresses, servers []string) []error {
	if len(grpcAddresses) == 0 {
		return []error{fmt.Errorf("--%s is required: give the address of at least one replica, such as 127.0.0.1:7444", flag)}
	}
	var errs []error
	for _, address := range grpcAddresses {
		if _, err := addresses.OfGRPC(address); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if len(errs) == 0 {
		if _, err := feeds.Locator(servers, grpcAddresses); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	return errs
}

// Complete fills in what can be derived; it makes a self-signed serving certificate in --cert-dir
// where no certificate was given, as kube-apiserver does.
func (o *Options) Complete() error {
	if err := o.ServerRun.Complete(); err != nil {
		return err
	}
	if err := o.ServerRun.DefaultAdvertiseAddress(o.SecureServing.SecureServingOptions); err != nil {
		return err
	}
	alternateDNS := []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"}
	if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts(o.ServerRun.AdvertiseAddress.String(), alternateDNS, nil); err != nil {
		return fmt.Errorf("making a self-signed serving certificate: %w", err)
	}
	o.Authorization.Complete()
	o.Authentication.applyAuthorization(o.Authorization)
	if o.ServerRun.ExternalHost == "" {
		o.ServerRun.ExternalHost = o.ServerRun.AdvertiseAddress.String()
	}
	return nil
}
