// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// Flags of additional backends.
const (
	backendFlag        = "backend"
	backendGRPCFlag    = "backend-grpc"
	backendBalanceFlag = "backend-balance"
	backendGroupsFlag  = "backend-groups"
)

// AdditionalBackends are the API services beside core and extensions. Each flag is given once for each of them.
type AdditionalBackends struct {
	// Servers are of the form NAME=URL[,URL...], GRPC of the form NAME=ADDRESS[,ADDRESS...], Balance of the form NAME=POLICY, Groups of the
	// form NAME=GROUP[,GROUP...].
	Servers, GRPC, Balance, Groups []string
}

// AddFlags adds the flags.
func (o *AdditionalBackends) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.Servers, backendFlag, o.Servers,
		"Name of an additional API service, and the URLs of its replicas (NAME=https://host:port[,...]), or a name whose addresses are "+
			"replicas (NAME=dns:///host:port). Repeat the flag for each service. The aggregator registers the group-versions "+
			"that the service reports.")
	fs.StringArrayVar(&o.GRPC, backendGRPCFlag, o.GRPC,
		"Addresses (NAME=host:port[,...]) at which the replicas of an additional API service serve gRPC (--grpc-bind-address there), in the "+
			"order of --backend.")
	fs.StringArrayVar(&o.Balance, backendBalanceFlag, o.Balance,
		fmt.Sprintf("How requests are spread over the replicas of an additional API service (NAME=POLICY): %s lets each replica do a fair part "+
			"of everything, %s sends all requests for a resource to the same replica. The default is %[1]s.", addresses.TwoChoices,
			addresses.Rendezvous))
	fs.StringArrayVar(&o.Groups, backendGroupsFlag, o.Groups,
		"API groups that an additional API service may serve (NAME=GROUP[,...]). The aggregator registers no other group for it. Without the "+
			"flag, it registers each group that is not built in. A partition of extensions, extensions-PARTITION, needs the flag, and its "+
			"groups may be of the form *.SUFFIX.")
}

func (o *AdditionalBackends) given() bool {
	return len(o.Servers)+len(o.GRPC)+len(o.Balance)+len(o.Groups) > 0
}

// find returns the services by name, or everything that is wrong with the flags.
func (o *AdditionalBackends) find() (map[string]addresses.Service, []error) {
	servers, errs := byName(backendFlag, o.Servers)
	grpc, wrong := byName(backendGRPCFlag, o.GRPC)
	errs = append(errs, wrong...)
	balance, wrong := byName(backendBalanceFlag, o.Balance)
	errs = append(errs, wrong...)
	groups, wrong := byName(backendGroupsFlag, o.Groups)
	errs = append(errs, wrong...)
	for flag, values := range map[string]map[string]string{backendGRPCFlag: grpc, backendBalanceFlag: balance, backendGroupsFlag: groups} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if _, known := servers[name]; !known {
				errs = append(errs, fmt.Errorf("--%s: there is no --%s %s=URL", flag, backendFlag, name))
			}
		}
	}
	var services map[string]addresses.Service
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		service := addresses.Service{Balance: addresses.Balance(balance[name]), Groups: list(groups[name])}
		service.Servers, service.GRPC = list(servers[name]), list(grpc[name])
		errs = append(errs, validateServers(backendFlag+" "+name, service.Servers)...)
		errs = append(errs, validateAddresses(backendGRPCFlag+" "+name, service.GRPC, service.Servers)...)
		if err := service.Balance.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--%s %s: %w", backendBalanceFlag, name, err))
		}
		if _, limited := groups[name]; limited && len(service.Groups) == 0 {
			errs = append(errs, fmt.Errorf("--%s %s: name a group", backendGroupsFlag, name)) // none would be no limit
		}
		if err := service.ValidateGroupsOf(name); err != nil {
			errs = append(errs, fmt.Errorf("--%s %s: %w", backendGroupsFlag, name, err))
		}
		if services == nil {
			services = map[string]addresses.Service{}
		}
		services[name] = service
	}
	if len(errs) == 0 {
		errs = append(errs, validatePartitions(services)...)
	}
	return services, errs
}

// validatePartitions returns what is wrong with the partitions of extensions, and with other backends that have groups of these.
func validatePartitions(services map[string]addresses.Service) []error {
	table, err := partitions.In(services)
	if err != nil {
		return []error{fmt.Errorf("--%s: %w", backendGroupsFlag, err)}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if _, partition := addresses.PartitionOf(name); partition {
			continue
		}
		for _, group := range services[name].Groups {
			if partition := table.Of(group); partition != partitions.Default {
				errs = append(errs, fmt.Errorf("--%s %s: partition %s of extensions has the group %s", backendGroupsFlag, name, partition, group))
			}
		}
	}
	return errs
}

// byName returns the values of a flag that is given once for each name.
func byName(flag string, given []string) (map[string]string, []error) {
	var errs []error
	values := map[string]string{}
	for _, each := range given {
		name, value, ok := strings.Cut(each, "=")
		_, twice := values[name]
		err := addresses.ValidateBackend(name)
		switch {
		case !ok:
			err = fmt.Errorf("%q is not of the form NAME=VALUE", each)
		case err == nil && twice:
			err = errors.New(name + " is given twice; separate several values by commas")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
			continue
		}
		values[name] = value
	}
	return values, errs
}

func list(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}
