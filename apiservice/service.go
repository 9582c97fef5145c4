// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service"
)

// Service is an API service.
type Service struct {
	// Name is the name of the service in Tripod: a DNS label that starts with a letter, and no name of a service that every instance has.
	// Its certificates are for system:tripod:NAME.
	Name string
	// Description is the help text of the command.
	Description string
	// AddToScheme adds the types of all versions, their defaults and their conversions.
	AddToScheme []func(*runtime.Scheme) error
	// Definitions are the schemas in OpenAPI, as k8s.io/kube-openapi/cmd/openapi-gen generates them. Those of k8s.io/apimachinery need not be
	// among them.
	Definitions common.GetOpenAPIDefinitions
	// Groups are what the service serves. There is at least one.
	Groups []Group
	// Plugins are admission plugins for the service's own objects. They run after those that change objects in all API servers, in this order.
	Plugins []Plugin
	// EtcdPrefix is the default of --etcd-prefix. It is /registry if empty, where kube-apiserver keeps its objects, too.
	EtcdPrefix string
	// Hooks run while the service serves.
	Hooks []Hook
	// ReadyChecks decide, besides those that every service has, whether a replica is ready. A replica that is not gets no requests.
	ReadyChecks []ReadyCheck
	// Configure changes the configuration of k8s.io/apiserver after everything else and before the server is made, such as its handler chain
	// or its authorizer, for services that answer requests in their own way. It may be nil. What it finds there is Kubernetes' and may change
	// with Kubernetes.
	Configure func(*genericapiserver.Config, *Environment)
	// KeepDecisions reports whether a decision of core about a request may be kept for a second, at most 4096 of all. A user must ask the same
	// again, selectors included. Without it, core is asked each time that the aggregator has not decided. It may be nil.
	KeepDecisions func(authorizer.Attributes) bool
	// AddFlags adds flags of the service itself. It may be nil. Their values are there when ValidateFlags and Prepare are called.
	AddFlags func(*pflag.FlagSet)
	// ValidateFlags returns what is wrong with the values of these flags, before anything is opened or started. It may be nil.
	ValidateFlags func() error
	// Prepare opens what plugins, storages, Configure and Hooks share, such as a database, before they are made. It may be nil. It waits for
	// nothing that may be away for long: a ReadyCheck says whether a database answers. An error ends the process.
	Prepare func(context.Context, *Environment) error
	// Close closes what Prepare has opened. It is called once, after the last request was answered and the last hook has returned, and also if
	// Prepare or anything after it has failed. It may be nil.
	Close func() error
}

// Group is an API group.
type Group struct {
	// Name is the name of the group, such as wardle.example.com.
	Name string
	// Versions are served, the preferred one first.
	Versions []string
	// StorageVersion is the version in which objects are written to etcd. It is the first of Versions if empty.
	StorageVersion string
	// Resources are the resources of the group: Objects, ReadOnly, or Custom.
	Resources []Resource
}

func (g Group) storageVersion() string { return cmp.Or(g.StorageVersion, g.Versions[0]) }

// stored reports whether the service keeps anything in etcd.
func (s *Service) stored() bool {
	return slices.ContainsFunc(s.Groups, func(g Group) bool { return slices.ContainsFunc(g.Resources, Resource.stored) })
}

// Main runs the service as the command line says, and returns the exit code for [os.Exit].
func Main(s Service) int {
	if err := s.Validate(); err != nil {
		fmt.Fprintf(os.Stderr, "Error: this program is wrong: %v\n", err)
		return 1
	}
	return service.Main(s.Description, newOptions(&s), newConfig, newServer)
}

// Run runs the service with the arguments of a command line, such as --secure-port=8443, until the context ends. It is for tests in Go, and
// for programs that do something besides. Feature gates and metrics belong to the process, so a process runs one service at a time.
func Run(ctx context.Context, s Service, args ...string) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("this service is wrong: %w", err)
	}
	return service.Run(ctx, args, s.Description, newOptions(&s), newConfig, newServer)
}

func (s *Service) close() error {
	if s.Close == nil {
		return nil
	}
	return s.Close()
}

var apiVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// Validate returns what the author got wrong, and is for tests of the service. Main refuses such a service.
func (s Service) Validate() error {
	if err := s.validate(); err != nil {
		return err
	}
	t, err := newTypes(&s)
	if err != nil {
		return err
	}
	return t.validateDefinitions(&s)
}

func (s *Service) validate() error {
	var errs []error
	if err := addresses.ValidateName(s.Name); err != nil {
		errs = append(errs, fmt.Errorf("Name: %w", err))
	}
	if len(s.Groups) == 0 || s.Definitions == nil {
		errs = append(errs, errors.New("Groups and Definitions are required"))
	}
	for _, g := range s.Groups {
		if problems := validation.IsDNS1123Subdomain(g.Name); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("group %q: %s", g.Name, problems[0]))
		}
		for _, version := range g.Versions {
			if !apiVersion.MatchString(version) {
				errs = append(errs, fmt.Errorf("group %s: %q is not a version such as v1 or v1beta1", g.Name, version))
			}
		}
		switch {
		case len(g.Versions) == 0:
			errs = append(errs, fmt.Errorf("group %s has no versions", g.Name))
		case g.StorageVersion != "" && !slices.Contains(g.Versions, g.StorageVersion):
			errs = append(errs, fmt.Errorf("group %s: StorageVersion %q is not among Versions", g.Name, g.StorageVersion))
		}
	}
	errs = append(errs, s.validateNames())
	for _, p := range s.Plugins {
		if p.Name == "" || p.New == nil {
			errs = append(errs, errors.New("a plugin needs Name and New"))
		}
	}
	for _, h := range s.Hooks {
		if h.Name == "" || h.Run == nil {
			errs = append(errs, errors.New("a hook needs Name and Run"))
		}
	}
	for _, c := range s.ReadyChecks {
		if c.Name == "" || c.Check == nil {
			errs = append(errs, errors.New("a ready check needs Name and Check"))
		}
	}
	if s.EtcdPrefix != "" && !s.stored() {
		errs = append(errs, errors.New("EtcdPrefix is set, and no resource is kept in etcd"))
	}
	return errors.Join(errs...)
}

// validateNames returns an error if two groups, or two resources in a version of a group, have one name.
func (s *Service) validateNames() error {
	var errs []error
	groups, resources := map[string]bool{}, map[string]bool{}
	for _, g := range s.Groups {
		if groups[g.Name] {
			errs = append(errs, fmt.Errorf("two of Groups have the name %s", g.Name))
		}
		groups[g.Name] = true
		for _, r := range g.Resources {
			versions := r.served()
			if len(versions) == 0 {
				versions = g.Versions
			}
			for _, version := range versions {
				if key := g.Name + "/" + version + " " + r.name(); resources[key] {
					errs = append(errs, fmt.Errorf("group %s: two resources of version %s have the name %s", g.Name, version, r.name()))
				} else {
					resources[key] = true
				}
			}
		}
	}
	return errors.Join(errs...)
}
