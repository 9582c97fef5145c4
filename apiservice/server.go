// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tripod-k8s/tripod/base/backend"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/storage/etcdgate"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// config is what a service is built from.
type config struct {
	options *completed
	generic *genericapiserver.RecommendedConfig
	// backend is nil behind kube-apiserver.
	backend *backend.Config
	// served are the resources and subresources in each version, "GROUP/VERSION NAME".
	served []string
	// opened are the storages that were made.
	opened []registryrest.Storage
}

func newConfig(ctx context.Context, o *completed) (*config, error) {
	api := service.API{
		Resources: o.types.enabled(o.service), Scheme: o.types.scheme, Definitions: o.service.definitions, Documented: o.types.versioned,
	}
	if o.delegated() {
		generic, err := newDelegatedConfig(o, api)
		if err != nil {
			return nil, err
		}
		return prepare(ctx, &config{options: o, generic: generic})
	}
	built, err := backend.NewConfig(ctx, &o.Options, o.neighbours, backend.Settings{
		API:    api,
		Codecs: o.types.codecs,
		Serves: o.types.serves(o.service),
		Access: func(config *genericapiserver.Config, core *rest.Config) error {
			return applyAccess(o, config, core)
		},
		Admission: o.admission,
		Initializers: func(c *backend.Config) ([]admission.PluginInitializer, error) {
			client, err := c.KubernetesClient()
			if err != nil {
				return nil, err
			}
			o.environment.Informers, o.environment.Kubernetes = c.Generic.SharedInformerFactory, client
			o.environment.Cluster, o.environment.Self = c.ClusterConfig(), c.Generic.LoopbackClientConfig
			return nil, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return prepare(ctx, &config{options: o, generic: built.Generic, backend: built})
}

// prepare has the service open what its parts share, now that the environment is complete, and closes it again if that fails.
func prepare(ctx context.Context, c *config) (*config, error) {
	service := c.options.service
	if service.Prepare != nil {
		if err := service.Prepare(ctx, c.options.environment); err != nil {
			return nil, c.abandon(err)
		}
	}
	if service.Configure != nil {
		service.Configure(&c.generic.Config, c.options.environment)
	}
	service.declared().applyTo(&c.generic.Config)
	return c, nil
}

// newDelegatedConfig returns the configuration of an aggregated API server as Kubernetes' documentation describes it.
func newDelegatedConfig(o *completed, api service.API) (*genericapiserver.RecommendedConfig, error) {
	generic := genericapiserver.NewRecommendedConfig(o.types.codecs)
	if err := o.core.ApplyTo(generic); err != nil {
		return nil, fmt.Errorf("neither a certificate of Tripod (--service-cert-file) nor a cluster (--kubeconfig): %w", err)
	}
	client, err := kubernetes.NewForConfig(generic.ClientConfig)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(generic.ClientConfig)
	if err != nil {
		return nil, err
	}
	if err := disableUnserved(client.Discovery(), o.admission); err != nil {
		return nil, err
	}
	if err := o.ApplyTo(generic, client, api); err != nil {
		return nil, err
	}
	if err := o.authentication.ApplyTo(&generic.Authentication, generic.SecureServing, generic.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("authentication by the cluster: %w", err)
	}
	if err := o.authorization.ApplyTo(&generic.Authorization); err != nil {
		return nil, fmt.Errorf("authorization by the cluster: %w", err)
	}
	o.environment.Informers, o.environment.Kubernetes = generic.SharedInformerFactory, client
	o.environment.Cluster, o.environment.Self = generic.ClientConfig, generic.LoopbackClientConfig
	return generic, o.admission.ApplyTo(&generic.Config, generic.SharedInformerFactory, client, dynamicClient,
		utilfeature.DefaultFeatureGate, generic.EffectiveVersion)
}

// enabled are the resources that are served unless flags disable them: all.
func (t *types) enabled(s *Service) *serverstorage.ResourceConfig {
	resources := serverstorage.NewResourceConfig()
	for _, g := range s.Groups {
		for _, version := range g.Versions {
			resources.EnableVersions(schema.GroupVersion{Group: g.Name, Version: version})
		}
	}
	return resources
}

// serves reports whether the service serves a group-version.
func (t *types) serves(s *Service) func(schema.GroupVersion) bool {
	return func(gv schema.GroupVersion) bool {
		return slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Name == gv.Group && slices.Contains(g.Versions, gv.Version) })
	}
}

// server is a service before it serves.
type server struct {
	*config
	api     *genericapiserver.GenericAPIServer
	backend *backend.Server
	hooks   *hooks
}

func newServer(c *config) (*server, error) {
	s, err := c.newServer()
	if err != nil {
		return nil, c.abandon(err)
	}
	return s, nil
}

// abandon frees what was opened for a server that does not come to be because of an error.
func (c *config) abandon(err error) error {
	for _, storage := range c.opened {
		storage.Destroy()
	}
	if c.backend != nil {
		c.backend.Close()
	}
	return errors.Join(err, c.generic.SecureServing.Listener.Close(), c.options.service.close())
}

func (c *config) newServer() (*server, error) {
	api, err := c.generic.Complete().New(c.options.service.Name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	if err := c.install(api); err != nil {
		return nil, err
	}
	s := &server{config: c, api: api, hooks: &hooks{all: c.options.service.Hooks}}
	if err := c.options.environment.install(api, s.hooks, c.options.service.ReadyChecks); err != nil {
		return nil, err
	}
	if c.backend != nil {
		s.backend, err = c.backend.NewServer(api, nil)
	}
	return s, err
}

// install serves the groups, as far as --runtime-config does not disable them.
func (c *config) install(api *genericapiserver.GenericAPIServer) error {
	getter := etcdgate.Getter(c.generic.RESTOptionsGetter)
	moves := &migrations{codecs: c.options.types.codecs, maxBytes: c.generic.MaxRequestBodyBytes, movable: map[schema.GroupResource]*movable{}}
	for _, g := range c.options.service.Groups {
		info := genericapiserver.NewDefaultAPIGroupInfo(g.Name, c.options.types.scheme, metav1.ParameterCodec, c.options.types.codecs)
		for _, resource := range g.Resources {
			versions := c.enabled(g, resource)
			if len(versions) == 0 {
				continue // a storage of it would be used and closed by nothing
			}
			storages, err := resource.storages(c.options.environment, g, getter)
			c.opened = slices.AppendSeq(c.opened, maps.Values(storages))
			if err != nil {
				return err
			}
			if err := moves.add(c.options.types, g, storages, resource.name(), versions); err != nil {
				return err
			}
			for _, gv := range versions {
				for name, storage := range storages {
					c.serve(&info, gv, name, storage)
				}
			}
		}
		if len(info.VersionedResourcesStorageMap) == 0 {
			continue
		}
		if err := api.InstallAPIGroup(&info); err != nil {
			return err
		}
	}
	moves.install(api)
	return nil
}

// enabled are the versions that serve a resource.
func (c *config) enabled(g Group, r Resource) []schema.GroupVersion {
	name, _, _ := strings.Cut(r.name(), "/")
	versions := r.served()
	if len(versions) == 0 {
		versions = g.Versions
	}
	var enabled []schema.GroupVersion
	for _, version := range versions {
		gv := schema.GroupVersion{Group: g.Name, Version: version}
		if c.generic.MergedResourceConfig.ResourceEnabled(gv.WithResource(name)) {
			enabled = append(enabled, gv)
		}
	}
	return enabled
}

// serve adds a resource or subresource to a group, and notes its version as served.
func (c *config) serve(info *genericapiserver.APIGroupInfo, gv schema.GroupVersion, name string, storage registryrest.Storage) {
	if info.VersionedResourcesStorageMap[gv.Version] == nil {
		info.VersionedResourcesStorageMap[gv.Version] = map[string]registryrest.Storage{}
	}
	info.VersionedResourcesStorageMap[gv.Version][name] = storage
	c.served = append(c.served, gv.String()+" "+name)
}

// Run implements service.Server. What Prepare has opened is closed at the end, when nothing uses it any more.
func (s *server) Run(ctx context.Context, ports *service.Ports) error {
	ctx, s.hooks.fail = context.WithCancelCause(ctx)
	defer s.hooks.fail(nil)
	err := s.serve(ctx, ports)
	if failed := context.Cause(ctx); ctx.Err() != nil && !errors.Is(failed, ctx.Err()) {
		err = errors.Join(failed, err)
	}
	return errors.Join(err, s.hooks.wait(), s.options.service.close())
}

func (s *server) serve(ctx context.Context, ports *service.Ports) error {
	if s.backend == nil {
		prepared := s.api.PrepareRun()
		ports.Probes.Serve(s.api.Handler.NonGoRestfulMux)
		return prepared.RunWithContext(ctx)
	}
	return s.backend.Run(ctx, ports, func(publisher backend.Publisher) error {
		catalog, err := s.catalog()
		if err == nil {
			publisher.SetCatalog(catalog)
		}
		return err
	})
}

// catalog is what the service reports to aggregators that it serves. Replicas with the same documents have the same digest.
func (s *server) catalog() (*backendv1.Catalog, error) {
	digest := sha256.New()
	fmt.Fprintln(digest, service.Version)
	slices.Sort(s.served)
	lasting := s.options.service.declared()
	var groupVersions []*backendv1.GroupVersion
	for _, served := range s.served {
		fmt.Fprintln(digest, served)
		text, _, _ := strings.Cut(served, " ")
		gv, err := schema.ParseGroupVersion(text)
		if err != nil {
			return nil, err
		}
		if last := len(groupVersions) - 1; last < 0 || groupVersions[last].GetGroup() != gv.Group ||
			groupVersions[last].GetVersion() != gv.Version {
			groupVersions = append(groupVersions, &backendv1.GroupVersion{
				Group: gv.Group, Version: gv.Version, LongRunning: lasting.of(gv, s.served),
			})
		}
	}
	definitions := s.options.service.definitions(func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) })
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		text, err := json.Marshal(definitions[name].Schema)
		if err != nil {
			return nil, fmt.Errorf("OpenAPI definition %s: %w", name, err)
		}
		fmt.Fprintf(digest, "%s %s\n", name, text)
	}
	sum := hex.EncodeToString(digest.Sum(nil))
	return &backendv1.Catalog{GroupVersions: groupVersions, DiscoveryDigest: sum, OpenapiDigest: sum}, nil
}
