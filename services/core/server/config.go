// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"strconv"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"

	"github.com/tripod-k8s/tripod/base/admission/ending"
	"github.com/tripod-k8s/tripod/base/admission/loopback"
	"github.com/tripod-k8s/tripod/base/hop/feed"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/services/core/endpoints"
	"github.com/tripod-k8s/tripod/services/core/identity"
	"github.com/tripod-k8s/tripod/services/core/options"
	"github.com/tripod-k8s/tripod/services/core/paramkinds"
)

// Config has the parts that core is built from.
type Config struct {
	options *options.Completed
	// kube is the configuration of kube-apiserver's control plane.
	kube      *controlplane.Config
	informers *service.Informers
	// dependencies finds the objects that tokens depend on.
	dependencies *identity.Dependencies
	// served are the paths that loopback clients send to this process.
	served *loopback.Served
	// webhookFreshness is how long aggregators may cache answers of the authentication webhook. It is nil without a webhook.
	webhookFreshness *time.Duration
	// inFlight counts requests.
	inFlight *feed.Counter
	// endpoints keeps the endpoints of the kubernetes Service.
	endpoints *endpoints.Reconciler
}

// NewConfig builds the configuration that kube-apiserver builds for its built-in groups, and puts Tripod's services in
// front of authentication and authorization.
func NewConfig(ctx context.Context, o *options.Completed) (*Config, error) {
	c := &Config{options: o, inFlight: &feed.Counter{}}
	if err := c.buildKube(ctx); err != nil {
		return nil, err
	}
	c.inFlight.ApplyTo(c.kube.ControlPlane.Generic)
	var err error
	c.endpoints, err = endpoints.Apply(c.kube, o.AdvertisePort)
	return c, err
}

// buildKube calls kube-apiserver's builders. Tripod's additions are in between, because a later builder reads the results of the earlier
// ones.
func (c *Config) buildKube(ctx context.Context) error {
	o := c.options
	freshness, restore := shareWebhookCache(o.Kube.Authentication.WebHook)
	defer restore()
	c.webhookFreshness = freshness
	// The schemes decide the group-version-kinds in OpenAPI documents. kube-apiserver passes the same three.
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	generic, factory, storageFactory, err := buildGeneric(o.Kube.CompletedOptions, schemes)
	if err != nil {
		return err
	}
	c.informers = service.NewInformers(factory)
	if c.dependencies, err = identity.Follow(c.informers, o.Kube.Authentication.ServiceAccounts); err != nil {
		return err
	}
	if err := applyTripod(o, generic); err != nil {
		return err
	}
	applyGate(generic, factory, o.Access.Modes)
	// This authorizer comes last, because it waits a moment for new policies before it refuses a request.
	generic.Authorization.Authorizer = trust.Around(
		nil, generic.Authorization.Authorizer, paramkinds.New(c.informers, utilfeature.DefaultFeatureGate))
	if c.served, err = applyLoopback(ctx, o, generic); err != nil {
		return err
	}
	o.Kube.Admission.GenericAdmission.Decorators = ending.Decorators(o.Kube.Admission.GenericAdmission.Decorators)
	c.kube, _, _, err = app.CreateKubeAPIServerConfig(o.Kube, generic, c.informers, storageFactory)
	return err
}

// applyTripod applies the options that kube-apiserver does not have. Admission and the storage of reviews use the authenticator, the
// authorizer and the identity in the configuration, so call applyTripod before they are built.
func applyTripod(o *options.Completed, config *genericapiserver.Config) error {
	if err := o.ApplyTrust(config, o.RefusesAnonymous()); err != nil {
		return err
	}
	if err := o.ApplyTripodTo(config); err != nil {
		return err
	}
	if o.AdvertisePort != 0 {
		if _, _, err := net.SplitHostPort(config.ExternalAddress); err != nil {
			config.ExternalAddress = net.JoinHostPort(config.ExternalAddress, strconv.Itoa(o.AdvertisePort))
		}
	}
	return nil
}
