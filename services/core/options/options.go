// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of tripod-core: all of kube-apiserver's and a few of its own.
package options

import (
	"context"
	"fmt"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/service/settings"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// Options are the flags of core.
type Options struct {
	service.BackendOptions
	// Kube are kube-apiserver's options. The generic ones are those of BackendOptions.
	Kube *options.ServerRunOptions

	// AdvertisePort is the aggregator's port in the kubernetes Service, its endpoints and discovery. 0 means each aggregator's own port in the
	// endpoints, and core's port elsewhere.
	AdvertisePort int
	// BindKubeletClient lets the user of --kubelet-client-certificate use the API of kubelets.
	BindKubeletClient bool
}

// Completed are options that were completed and found valid.
type Completed struct {
	*Options
	service.Neighbours
	// Kube are kube-apiserver's completed options.
	Kube options.CompletedOptions
	// Access is what the other services must have in common with core.
	Access settings.Access
}

// RefusesAnonymous reports whether core refuses clients without credentials, also those that the aggregator has let in: those that core
// itself would not let in, and all where every client may do everything.
func (o *Completed) RefusesAnonymous() bool {
	return !o.Access.Anonymous.Enabled || slices.Contains(o.Access.Modes, modes.ModeAlwaysAllow)
}

// New returns options with kube-apiserver's defaults, except that a shutdown ends watches and nothing about tokens is cached.
func New() *Options {
	kube := options.NewServerRunOptions()
	// Aggregators keep answers about tokens, and are notified when these hold no longer. A cache here would answer as before.
	kube.Authentication.TokenSuccessCacheTTL = 0
	generic := service.GenericOptions{
		ServerRun: kube.GenericServerRunOptions, Etcd: kube.Etcd, SecureServing: kube.SecureServing, Audit: kube.Audit,
		Features: kube.Features, APIEnablement: kube.APIEnablement, EgressSelector: kube.EgressSelector,
		Traces: kube.Traces, Metrics: kube.Metrics, Logs: kube.Logs,
	}
	o := &Options{BackendOptions: service.NewBackendOptions(service.NewOptions(list.Core, generic)), Kube: kube}
	o.Rights = list.Rights()
	o.ServiceTrust.ClientCAFile = &kube.Authentication.ClientCert.ClientCA
	o.ServiceTrust.RequestHeaderCAFile = &kube.Authentication.RequestHeader.ClientCAFile
	return o
}

// Flags returns the flags by section.
func (o *Options) Flags() *cliflag.NamedFlagSets {
	sets := o.Kube.Flags()
	o.AddTripodFlags(&sets, "--aggregator-servers")
	own := sets.FlagSet("tripod")
	own.IntVar(&o.AdvertisePort, "advertise-port", o.AdvertisePort,
		"Port of the aggregator in the kubernetes Service, its endpoints and discovery. 0 means each aggregator's own port in the endpoints, "+
			"and --secure-port elsewhere.")
	own.BoolVar(&o.BindKubeletClient, "bind-kubelet-client", o.BindKubeletClient,
		"Keep a ClusterRoleBinding tripod:kubelet-client, "+
			"which gives the user of --kubelet-client-certificate the ClusterRole system:kubelet-api-admin.")
	return &sets
}

// Validate returns every problem of the flags but those that kube-apiserver finds when they are completed.
func (o *Options) Validate() []error {
	errs := o.BackendOptions.Validate()
	if o.AdvertisePort < 0 || o.AdvertisePort > 65535 {
		errs = append(errs, fmt.Errorf("--advertise-port: %d is not between 0 and 65535", o.AdvertisePort))
	}
	if o.BindKubeletClient && o.Kube.KubeletConfig.TLSClientConfig.CertFile == "" {
		errs = append(errs, fmt.Errorf("--bind-kubelet-client: needs --kubelet-client-certificate"))
	}
	if peer := o.Kube.PeerAdvertiseAddress; o.Kube.PeerCAFile != "" || peer.PeerAdvertiseIP != "" || peer.PeerAdvertisePort != "" {
		errs = append(errs, fmt.Errorf("--peer-ca-file, --peer-advertise-ip and --peer-advertise-port "+
			"cannot be used with Tripod: %s", settings.NoPeers))
	}
	_, notFound := o.FindNeighbours()
	return append(errs, notFound...)
}

// Complete fills in what can be derived from valid flags, as kube-apiserver does.
func (o *Options) Complete(ctx context.Context) (*Completed, error) {
	completed := &Completed{Options: o}
	var errs []error
	if completed.Neighbours, errs = o.FindNeighbours(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	var err error
	if completed.Kube, err = o.Kube.Complete(ctx); err != nil {
		return nil, err
	}
	if errs := completed.Kube.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	completed.Access, err = o.access()
	return completed, err
}

// access reads who is let in from options that are complete and valid.
func (o *Options) access() (settings.Access, error) {
	authentication, err := o.Kube.Authentication.ToAuthenticationConfig()
	if err != nil {
		return settings.Access{}, err
	}
	inForce, err := policy.Modes(o.Kube.Authorization.Modes, o.Kube.Authorization.AuthorizationConfigurationFile)
	return settings.Access{Modes: inForce, Anonymous: &authentication.Anonymous}, err
}
