// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/services/aggregator/peers/feeds"
)

// listFlags are the flags whose place --backends-file takes.
const listFlags = "--core-servers, --core-grpc-servers, --extensions-servers, --extensions-grpc-servers and --backend..."

// BackendLists say where the replicas of the backends are.
type BackendLists struct {
	// CoreServers and ExtensionsServers are the URLs of the replicas of each backend.
	CoreServers, ExtensionsServers []string
	// CoreGRPCServers and ExtensionsGRPCServers are the addresses (host:port) at which the same replicas serve gRPC.
	CoreGRPCServers, ExtensionsGRPCServers []string
	// Additional are the other backends.
	Additional AdditionalBackends
}

// AddFlags adds the flags.
func (o *BackendLists) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.CoreServers, "core-servers", o.CoreServers,
		"URLs (https://host:port, comma separated) of the replicas of core, or a name whose addresses are replicas "+
			"(dns:///host:port), such as that of a headless Service.")
	fs.StringSliceVar(&o.ExtensionsServers, "extensions-servers", o.ExtensionsServers,
		"URLs (https://host:port, comma separated) of the replicas of extensions, or a name whose addresses are replicas "+
			"(dns:///host:port), such as that of a headless Service.")
	fs.StringSliceVar(&o.CoreGRPCServers, "core-grpc-servers", o.CoreGRPCServers,
		"Addresses (host:port, comma separated) at which the replicas of core serve gRPC (--grpc-bind-address there), in the order of "+
			"--core-servers. The aggregator asks one of them at a time about bearer tokens.")
	fs.StringSliceVar(&o.ExtensionsGRPCServers, "extensions-grpc-servers", o.ExtensionsGRPCServers,
		"Addresses (host:port, comma separated) at which the replicas of extensions serve gRPC (--grpc-bind-address there), in the order of "+
			"--extensions-servers.")
	o.Additional.AddFlags(fs)
}

// find returns where the replicas are, from the file at path if there is one, or everything that is wrong with that.
func (o *BackendLists) find(path string) (*addresses.Backends, []error) {
	if path == "" {
		additional, errs := o.Additional.find()
		return &addresses.Backends{
			Core:       addresses.Replicas{Servers: o.CoreServers, GRPC: o.CoreGRPCServers},
			Extensions: addresses.Replicas{Servers: o.ExtensionsServers, GRPC: o.ExtensionsGRPCServers},
			Services:   additional,
		}, append(o.validate(), errs...)
	}
	if o.Additional.given() || len(o.CoreServers)+len(o.CoreGRPCServers)+len(o.ExtensionsServers)+len(o.ExtensionsGRPCServers) > 0 {
		return nil, []error{fmt.Errorf("--%s takes the place of %s", addresses.BackendsFileFlag, listFlags)}
	}
	backends, err := addresses.LoadBackends(path)
	if err != nil {
		return nil, []error{fmt.Errorf("--%s: %w", addresses.BackendsFileFlag, err)}
	}
	for _, backend := range backends.List() {
		if len(backend.GRPC) == 0 {
			return nil, []error{fmt.Errorf("--%s: %s does not say where %s serves gRPC", addresses.BackendsFileFlag, path, backend.Name)}
		}
	}
	if errs := validatePartitions(backends.Services); len(errs) > 0 {
		return nil, errs
	}
	return backends, nil
}

func (o *BackendLists) validate() []error {
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
