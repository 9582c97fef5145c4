// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/admission/loopback"
	"github.com/tripod-k8s/tripod/base/hop/feed"
	"github.com/tripod-k8s/tripod/base/hop/link"
	"github.com/tripod-k8s/tripod/base/service"
)

// resync is how often informers on core pass all objects to their handlers again, as in kube-apiserver.
const resync = 10 * time.Minute

// Settings say what is special about a backend.
type Settings struct {
	API    service.API
	Codecs serializer.CodecFactory
	// Serves reports whether the service certainly serves a group-version. What its feed announces comes to that.
	Serves func(schema.GroupVersion) bool
	// Access sets up who may do what. core is the configuration of clients of core.
	Access func(config *genericapiserver.Config, core *rest.Config) error
	// Admission are the plugins, and Initializers give them what other backends do not have. Initializers may be nil, and is called when
	// clients of the service itself can be made.
	Admission    *genericoptions.AdmissionOptions
	Initializers func(*Config) ([]admission.PluginInitializer, error)
}

// Config is what a backend is built from. It has goroutines from the start: close it, unless a Server that it was made for runs.
type Config struct {
	// Generic is the configuration of the API server.
	Generic *genericapiserver.RecommendedConfig
	// Services finds webhooks, and WebhookClients makes clients for them.
	Services       webhook.ServiceResolver
	WebhookClients webhook.AuthenticationInfoResolverWrapper

	options   *Options
	others    *links
	informers *service.Informers
	// inFlight counts requests.
	inFlight *feed.Counter

	// group are the goroutines of the backend, also those of its Server, and end ends those of the configuration.
	group sync.WaitGroup
	end   context.CancelFunc
}

// NewConfig builds the configuration that kube-apiserver builds for its CRD server. kube-apiserver takes namespaces, Services, webhooks,
// policies, flow schemas and authorization from the same process; here they come from core.
func NewConfig(ctx context.Context, o *Options, others Neighbours, s Settings) (*Config, error) {
	ctx, end := context.WithCancel(ctx)
	c := &Config{
		Generic:  genericapiserver.NewRecommendedConfig(s.Codecs),
		options:  o,
		others:   newLinks(o, others, s.Serves),
		inFlight: &feed.Counter{},
		end:      end,
	}
	c.others.start(ctx, &c.group, o, others)
	if err := c.apply(ctx, s); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the goroutines of the backend, and waits for them.
func (c *Config) Close() {
	c.end()
	c.group.Wait()
}

func (c *Config) apply(ctx context.Context, s Settings) error {
	if err := c.applyOptions(s.API); err != nil {
		return err
	}
	if err := s.Access(&c.Generic.Config, c.others.core.Config(link.Fail)); err != nil {
		return err
	}
	var err error
	if c.Services, err = loopback.NewServiceResolver(c.informers, c.options.EndpointRouting); err != nil {
		return err
	}
	kinds := loopback.NewKinds(s.Admission)
	whole, err := c.others.wholeConfig(&c.Generic.Config, kinds)
	if err != nil {
		return err
	}
	c.group.Go(func() { kinds.Run(ctx) })
	c.WebhookClients = webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, c.Generic.EgressSelector, whole, c.Generic.TracerProvider)
	var initializers []admission.PluginInitializer
	if s.Initializers != nil {
		if initializers, err = s.Initializers(c); err != nil {
			return err
		}
	}
	if err := c.applyAdmission(s.Admission, whole, initializers); err != nil {
		return err
	}
	c.inFlight.ApplyTo(&c.Generic.Config)
	return nil
}

func (c *Config) applyOptions(api service.API) error {
	client, err := kubernetes.NewForConfig(c.others.core.Config(link.Wait))
	if err != nil {
		return fmt.Errorf("client for core: %w", err)
	}
	c.informers = service.NewInformers(
		informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(dropManagedFields)))
	c.Generic.SharedInformerFactory = c.informers
	// core on the same host has kube-apiserver's identity, so others need one of their own.
	if c.Generic.APIServerID, err = service.NewReplicaID(c.options.Name, c.options.Replica); err != nil {
		return err
	}
	if err := c.options.ApplyTo(c.Generic, client, api); err != nil {
		return err
	}
	c.Generic.LoopbackClientConfig.ContentType = runtime.ContentTypeProtobuf
	c.Generic.LoopbackClientConfig.DisableCompression = true
	return nil
}

func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// KubernetesClient returns a client of core, in the name of the service.
func (c *Config) KubernetesClient() (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(c.others.core.Config(link.Fail))
}

// ClusterConfig returns a configuration of clients of all APIs, which ask the aggregator in the service's own name.
func (c *Config) ClusterConfig() *rest.Config { return c.others.aggregator.Config(link.Fail) }
