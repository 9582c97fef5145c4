// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package list is the one list of the services of this repository, with what each may do in its own name.
//
// Only the packages of services, and those above, may import it. The modules that others build on (base, apiservice, proto) know the
// aggregator and core alone, which the protocol between services names.
package list

import (
	"slices"

	"github.com/tripod-k8s/tripod/base/hop/trust"
)

// Names of services.
const (
	Aggregator = "aggregator"
	Core       = "core"
	Extensions = "extensions"
	Search     = "search"
)

// Service is one of the services.
type Service struct {
	Name string
	// Does completes the sentence "NAME ...", for the images and for flags.
	Does string
	// Optional is set if an instance runs the service only if a flag asks for it. Such a service is built on package apiservice, and its name
	// is that of an additional API service for the other services.
	Optional bool
	// Grants are the rights of the service in its own name at the other services.
	Grants []trust.Grant
}

// services are in the order of their start, but for the aggregator, which starts last.
var services = []Service{
	{Name: Aggregator, Does: "is the public endpoint: APIServices, discovery, OpenAPI and the proxy to all others", Grants: ofAggregator},
	{Name: Core, Does: "has the built-in APIs of Kubernetes", Grants: ofCore},
	{Name: Extensions, Does: "has CustomResourceDefinitions and custom resources", Grants: ofExtensions},
	{Name: Search, Does: "copies objects into a database and finds them there", Optional: true, Grants: ofSearch},
}

// All returns all services.
func All() []Service { return slices.Clone(services) }

// Names returns the names of all services, and OptionalNames those of the optional ones.
func Names() []string { return names(func(Service) bool { return true }) }

// OptionalNames returns the names of the services that an instance need not run.
func OptionalNames() []string { return names(func(s Service) bool { return s.Optional }) }

// RequiredNames returns the names of the services without which an instance is none.
func RequiredNames() []string { return names(func(s Service) bool { return !s.Optional }) }

func names(include func(Service) bool) []string {
	var names []string
	for _, s := range services {
		if include(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// LinkedProgram is the program of the services without which an instance is none. Their own programs are links to it.
const LinkedProgram = "tripod-services"

// Program returns the name of the program of a service, and of its image.
func Program(service string) string { return "tripod-" + service }

// Rights returns what the services, and the API services of others, may do in their own name.
func Rights() trust.Rights {
	rights := trust.Rights{trust.AnyOther: slices.Clone(ofAPIServices), trust.AnyOf(Extensions): slices.Clone(ofPartitions)}
	for _, s := range services {
		rights[trust.UserOf(s.Name)] = slices.Clone(s.Grants)
	}
	return rights
}

// Grantees returns the user names of all services that have rights, with [trust.AnyOf] for the partitions of extensions,
// and [trust.AnyOther] for the API services of others.
func Grantees() []string {
	var users []string
	for _, name := range Names() {
		users = append(users, trust.UserOf(name))
	}
	return append(users, trust.AnyOf(Extensions), trust.AnyOther)
}
