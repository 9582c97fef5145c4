// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/sets"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/replicas"
	aggregatoroptions "github.com/tripod-k8s/tripod/services/aggregator/options"
	coreoptions "github.com/tripod-k8s/tripod/services/core/options"
	extensionsoptions "github.com/tripod-k8s/tripod/services/extensions/options"
	"github.com/tripod-k8s/tripod/services/shared/plugins"
)

// serviceName names one of the processes that together are kube-apiserver.
type serviceName string

const (
	core       serviceName = replicas.Core
	extensions serviceName = replicas.Extensions
	aggregator serviceName = replicas.Aggregator
)

// program returns the service that runs as a service: a partition is extensions.
func program(service serviceName) serviceName {
	if _, partition := addresses.PartitionOf(string(service)); partition {
		return extensions
	}
	return service
}

// flagValue is one flag as it was given. A flag that was given twice has two.
type flagValue struct{ name, value string }

func (f flagValue) String() string { return "--" + f.name + "=" + f.value }

// parse returns the flags in args in their order, without setting them.
func parse(flags *pflag.FlagSet, args []string) ([]flagValue, error) {
	var given []flagValue
	err := flags.ParseAll(args, func(flag *pflag.Flag, value string) error {
		given = append(given, flagValue{flag.Name, value})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("parse flags: %w", err)
	}
	return given, nil
}

// catalog has the names of all flags of each service.
type catalog struct {
	flags map[serviceName]sets.Set[string]
}

func newCatalog() *catalog {
	return &catalog{
		flags: map[serviceName]sets.Set[string]{
			core:       names(coreoptions.New().Flags()),
			extensions: names(extensionsoptions.New().Flags()),
			aggregator: names(aggregatoroptions.New().Flags()),
		},
	}
}

func names(flagSets *cliflag.NamedFlagSets) sets.Set[string] {
	// Every command of a service has this flag.
	result := sets.New("version")
	for _, set := range flagSets.FlagSets {
		set.VisitAll(func(flag *pflag.Flag) { result.Insert(flag.Name) })
	}
	return result
}

// route returns the given flags that a service gets, in their order.
func (c *catalog) route(to serviceName, given []flagValue) []flagValue {
	var result []flagValue
	for _, flag := range given {
		if rule, special := routes[flag.name]; special {
			result = append(result, rule(c, to, flag)...)
		} else if c.flags[program(to)].Has(flag.name) {
			result = append(result, flag)
		}
	}
	return result
}

// rule decides what a service gets of a flag.
type rule func(*catalog, serviceName, flagValue) []flagValue

// only gives a flag to these services.
func only(services ...serviceName) rule {
	allowed := sets.New(services...)
	return func(_ *catalog, to serviceName, flag flagValue) []flagValue {
		if !allowed.Has(program(to)) {
			return nil
		}
		return []flagValue{flag}
	}
}

// derived gives a flag to no service. The plan has what follows from it.
func derived(*catalog, serviceName, flagValue) []flagValue { return nil }

// ownFile gives every service a file of its own: core the file in the flag, and the others a file beside it.
func ownFile(c *catalog, to serviceName, flag flagValue) []flagValue {
	if !c.flags[program(to)].Has(flag.name) {
		return nil
	}
	if to == core || flag.value == "" || flag.value == "-" {
		return []flagValue{flag}
	}
	return []flagValue{{flag.name, besides(flag.value, string(to))}}
}

// besides puts a suffix before the extension of a file name.
func besides(path, suffix string) string {
	dot := strings.LastIndexByte(path, '.')
	if dot <= strings.LastIndexByte(path, '/')+1 {
		return path + "-" + suffix
	}
	return path[:dot] + "-" + suffix + path[dot:]
}

// pluginsOf are the admission plugins of the services that do not have all of them.
var pluginsOf = map[serviceName]plugins.Set{
	extensions: plugins.ForCustomResources(),
	aggregator: plugins.ForAPIServices(),
}

// ownPlugins gives each service only the names of its own admission plugins.
func ownPlugins(_ *catalog, to serviceName, flag flagValue) []flagValue {
	if to == core {
		return []flagValue{flag}
	}
	plugins := pluginsOf[program(to)].Names()
	var own []string
	for _, name := range strings.Split(flag.value, ",") {
		if slices.Contains(plugins, name) {
			own = append(own, name)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return []flagValue{{flag.name, strings.Join(own, ",")}}
}
