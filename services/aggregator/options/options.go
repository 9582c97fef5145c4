// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of the aggregator: those of kube-apiserver that concern what it serves and proxies, and a few of its own.
package options

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	cliflag "k8s.io/component-base/cli/flag"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service"
	services "github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/plugins"
	"github.com/tripod-k8s/tripod/services/shared/policy"
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

// defaultIdentityGrace is long enough for core to restart.
const defaultIdentityGrace = 30 * time.Second

// Options are the flags of the aggregator.
type Options struct {
	service.Options
	policy.AccessOptions
	Authentication *AuthenticationOptions

	// Lists say where the replicas of the backends are, unless BackendsFile says it.
	Lists BackendLists
	// IdentityGrace is how long known tokens are let in while no replica of core can be asked.
	IdentityGrace time.Duration
	// RequestsMemoryMB is how many MiB requests in flight may take, or 0 for half of the memory of the process.
	RequestsMemoryMB int
	// ConnectionsMemoryMB is how many MiB connections of clients may take, or 0 for an eighth of the memory of the process.
	ConnectionsMemoryMB int
	// SharedBindAddress is a host:port at which several aggregators of a host listen, or empty.
	SharedBindAddress string
	// SharedWatches makes watches at a replica share events (base/hop/watches).
	SharedWatches bool
	// APIServiceForm is the form of the APIServices registered for the backends.
	APIServiceForm string

	// ProxyClientCertFile and ProxyClientKeyFile identify the aggregator to aggregated API servers.
	ProxyClientCertFile string
	ProxyClientKeyFile  string
	// EnableAggregatorRouting sends requests for aggregated API servers to endpoint addresses instead of cluster IPs.
	EnableAggregatorRouting bool
	// RejectForwardingRedirects refuses to pass redirects of aggregated API servers on to clients.
	RejectForwardingRedirects bool
}

// Completed are options that were completed and found valid.
type Completed struct {
	*Options
	// Backends says where the replicas of the backends are when the aggregator starts.
	Backends *addresses.Backends
}

// New returns the options with kube-apiserver's defaults, except that a shutdown moves clients elsewhere first.
func New() *Options {
	generic := service.NewGenericOptions(newEtcdOptions(), newSecureServingOptions())
	o := &Options{
		Options:                   service.NewOptions(services.Aggregator, generic),
		AccessOptions:             policy.NewAccessOptions(newAdmissionOptions(), plugins.ForAPIServices()),
		Authentication:            NewAuthenticationOptions(),
		IdentityGrace:             defaultIdentityGrace,
		SharedWatches:             true,
		APIServiceForm:            string(FormService),
		RejectForwardingRedirects: true,
	}
	o.ServiceTrust.ClientCAFile = &o.Authentication.ClientCert.ClientCA
	o.ServiceTrust.RequestHeaderCAFile = &o.Authentication.RequestHeader.ClientCAFile
	return o
}

// newEtcdOptions returns kube-apiserver's defaults of where and how it keeps APIServices.
func newEtcdOptions() *genericoptions.EtcdOptions {
	o := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry",
		aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion, apiregistrationv1beta1.SchemeGroupVersion)))
	// As kube-apiserver's CreateAggregatorConfig does.
	o.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(apiregistrationv1.SchemeGroupVersion,
		schema.GroupKind{Group: apiregistrationv1beta1.GroupName})
	o.DefaultStorageMediaType = "application/json"
	return o
}

// newSecureServingOptions returns kube-apiserver's defaults of the public endpoint.
func newSecureServingOptions() *genericoptions.SecureServingOptions {
	return &genericoptions.SecureServingOptions{
		BindAddress: net.IPv4zero,
		BindPort:    6443,
		Required:    true,
		ServerCert: genericoptions.GeneratableKeyCert{
			PairName:      "apiserver",
			CertDirectory: "/var/run/kubernetes",
		},
	}
}

// Flags returns the flags by section, as kube-apiserver groups them in its help.
func (o *Options) Flags() *cliflag.NamedFlagSets {
	sets := &cliflag.NamedFlagSets{}
	o.AddGenericFlags(sets)
	o.Authentication.AddFlags(sets.FlagSet("authentication"))
	o.AccessOptions.AddFlags(sets)
	o.addAggregatedFlags(sets.FlagSet("aggregated API servers"))
	o.AddTripodFlags(sets, listFlags)
	o.addOwnFlags(sets.FlagSet("tripod"))
	return sets
}

func (o *Options) addAggregatedFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ProxyClientCertFile, "proxy-client-cert-file", o.ProxyClientCertFile,
		"Client certificate that identifies the aggregator to aggregated API servers. It must be signed by the CA in "+
			"--requestheader-client-ca-file.")
	fs.StringVar(&o.ProxyClientKeyFile, "proxy-client-key-file", o.ProxyClientKeyFile,
		"Private key for --proxy-client-cert-file.")
	fs.BoolVar(&o.EnableAggregatorRouting, "enable-aggregator-routing", o.EnableAggregatorRouting,
		"Route requests for aggregated API servers to endpoint addresses rather than cluster IPs.")
	fs.BoolVar(&o.RejectForwardingRedirects, "aggregator-reject-forwarding-redirect", o.RejectForwardingRedirects,
		"Reject redirects of aggregated API servers instead of passing them to the client.")
}

func (o *Options) addOwnFlags(fs *pflag.FlagSet) {
	o.Lists.AddFlags(fs)
	fs.DurationVar(&o.IdentityGrace, "identity-grace", o.IdentityGrace,
		"How long the aggregator accepts cached bearer tokens while it can ask no replica of core. Afterwards, and with other tokens, requests "+
			"get 503.")
	fs.IntVar(&o.RequestsMemoryMB, "requests-memory-mb", o.RequestsMemoryMB,
		"Memory, in MiB, that requests in flight may take. A user may have as much as is still free; more requests get 429. "+
			"0 means half of GOMEMLIMIT or of the container's limit, and 2048 without a limit.")
	fs.IntVar(&o.ConnectionsMemoryMB, "connections-memory-mb", o.ConnectionsMemoryMB,
		"Memory, in MiB, that connections of clients may take, without the requests on them. A connection counts with 36 KiB. For one more, "+
			"the aggregator "+
			"closes one that is not in use, of the user or address that has most. 0 means an eighth of GOMEMLIMIT or of the container's limit, "+
			"and 1024 without a limit.")
	fs.StringVar(&o.SharedBindAddress, "shared-bind-address", o.SharedBindAddress,
		"Address (host:port) that several aggregators on a host share. Each accepts connections there from when it is ready until it is about "+
			"to stop, besides those at --secure-port, which is its own.")
	fs.BoolVar(&o.SharedWatches, "shared-watches", o.SharedWatches,
		"Receive an event only once from a replica of a backend, for all watches that get it. Backends that cannot do that send it once for "+
			"each watch.")
	fs.StringVar(&o.APIServiceForm, "apiservice-form", o.APIServiceForm,
		"Form of the APIServices registered for core, extensions and its partitions: \"service\" names the backend in spec.service, \"local\" "+
			"leaves it empty as kube-apiserver does, so that both can share one etcd.")
}

// Validate returns every problem of the flags.
func (o *Options) Validate() []error {
	errs := append(o.Options.Validate(), o.AccessOptions.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	_, notFound := o.Lists.find(o.BackendsFile)
	errs = append(errs, notFound...)
	if o.IdentityGrace < 0 {
		errs = append(errs, fmt.Errorf("--identity-grace must not be negative"))
	}
	if o.RequestsMemoryMB < 0 {
		errs = append(errs, fmt.Errorf("--requests-memory-mb must not be negative"))
	}
	if o.ConnectionsMemoryMB < 0 {
		errs = append(errs, fmt.Errorf("--connections-memory-mb must not be negative"))
	}
	if _, err := o.SharedPort(); err != nil {
		errs = append(errs, err)
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

// SharedPort returns the port of --shared-bind-address, or 0 without that.
func (o *Options) SharedPort() (uint16, error) {
	if o.SharedBindAddress == "" {
		return 0, nil
	}
	_, port, err := net.SplitHostPort(o.SharedBindAddress)
	if err != nil {
		return 0, fmt.Errorf("--shared-bind-address: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || int(number) == o.SecureServing.BindPort {
		return 0, fmt.Errorf("--shared-bind-address: %q must be a port from 1 to 65535 other than --secure-port", port)
	}
	return uint16(number), nil
}

// Complete fills in what can be derived from valid flags. It makes a self-signed serving certificate in --cert-dir where no certificate
// was given, as kube-apiserver does.
func (o *Options) Complete(context.Context) (*Completed, error) {
	backends, errs := o.Lists.find(o.BackendsFile)
	if len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	if err := o.ServerRun.Complete(); err != nil {
		return nil, err
	}
	if err := o.ServerRun.DefaultAdvertiseAddress(o.SecureServing.SecureServingOptions); err != nil {
		return nil, err
	}
	alternateDNS := []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"}
	if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts(o.ServerRun.AdvertiseAddress.String(), alternateDNS, nil); err != nil {
		return nil, fmt.Errorf("making a self-signed serving certificate: %w", err)
	}
	o.Authorization.Complete()
	o.Authentication.applyAuthorization(o.Authorization)
	if o.ServerRun.ExternalHost == "" {
		o.ServerRun.ExternalHost = o.ServerRun.AdvertiseAddress.String()
	}
	return &Completed{Options: o, Backends: backends}, nil
}
