// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds the flags of tripod-extensions: those of kube-apiserver that concern custom resources, and a few of its own.
package options

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cliflag "k8s.io/component-base/cli/flag"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/tripod-k8s/tripod/base/backend"
	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/service"
	"github.com/tripod-k8s/tripod/base/service/settings"
	"github.com/tripod-k8s/tripod/services/extensions/definitions"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
	"github.com/tripod-k8s/tripod/services/shared/plugins"
	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// Options are the flags of extensions.
type Options struct {
	backend.Options
	policy.AccessOptions
	// ClientCert authenticates direct clients, if they are allowed.
	ClientCert genericoptions.ClientCertAuthenticationOptions
	// Partition is the partition of custom resources that the replica serves, and PartitionGroups are the API groups of each (NAME=GROUP,...).
	Partition       string
	PartitionGroups []string
	// GroupEtcds are the etcds that API groups have of their own.
	GroupEtcds GroupEtcds
}

// Completed are options that were completed and found valid.
type Completed struct {
	*Options
	backend.Neighbours
	// OwnPartition is the partition of this replica.
	OwnPartition definitions.Partition
}

// New returns options with kube-apiserver's defaults, except that a shutdown ends watches.
func New() *Options {
	generic := service.NewGenericOptions(newEtcdOptions(), genericoptions.NewSecureServingOptions())
	o := &Options{
		Options:       backend.NewOptions(list.Extensions, generic),
		AccessOptions: policy.NewAccessOptions(newAdmissionOptions(), plugins.ForCustomResources()),
	}
	o.Rights = list.Rights()
	o.GroupEtcds = newGroupEtcds(generic.Etcd)
	o.ServiceTrust.ClientCAFile = &o.ClientCert.ClientCA
	return o
}

func newEtcdOptions() *genericoptions.EtcdOptions {
	// kube-apiserver stores CustomResourceDefinitions as v1beta1, the more compact form. https://issue.k8s.io/82292
	storage := storagebackend.NewDefaultConfig("/registry",
		apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion))
	storage.EncodeVersioner = runtime.NewMultiGroupVersioner(
		apiextensionsv1beta1.SchemeGroupVersion, schema.GroupKind{Group: apiextensionsv1beta1.GroupName})
	return genericoptions.NewEtcdOptions(storage)
}

// Flags returns the flags by section.
func (o *Options) Flags() *cliflag.NamedFlagSets {
	sets := &cliflag.NamedFlagSets{}
	o.AddGenericFlags(sets)
	o.ClientCert.AddFlags(sets.FlagSet("authentication"))
	o.AccessOptions.AddFlags(sets)
	o.AddTripodFlags(sets)
	own := sets.FlagSet("tripod")
	own.StringVar(&o.Partition, partitionFlag, o.Partition,
		"Name of the partition of custom resources that this replica serves. Without the flag, it serves the default partition: "+
			"CustomResourceDefinitions, and the custom resources of all API groups without a partition.")
	own.StringArrayVar(&o.PartitionGroups, partitionGroupsFlag, o.PartitionGroups,
		"API groups of a partition (NAME=GROUP[,GROUP...]), each the name of a group, or *.SUFFIX for all groups below SUFFIX. Repeat the flag "+
			"for each partition, and give all replicas of extensions the same. --"+addresses.BackendsFileFlag+" takes its place.")
	o.GroupEtcds.addFlags(own)
	return sets
}

// Validate returns every problem of the flags.
func (o *Options) Validate() []error {
	errs := append(o.Options.Validate(), o.AccessOptions.Validate()...)
	if found, wrong := o.Find(); len(wrong) == 0 {
		if _, err := o.ownPartition(found); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, o.GroupEtcds.validate()...)
	// --runtime-config is the same for all services, so it may name groups of other services.
	enablement := genericoptions.APIEnablementOptions{RuntimeConfig: settings.RenameCoreGroup(o.APIEnablement.RuntimeConfig)}
	return append(errs, enablement.Validate(apiextensionsapiserver.Scheme, clientgoscheme.Scheme, aggregatorscheme.Scheme)...)
}

// Complete fills in what can be derived from valid flags.
func (o *Options) Complete(context.Context) (*Completed, error) {
	neighbours, err := o.Options.Complete()
	if err != nil {
		return nil, err
	}
	partition, err := o.ownPartition(neighbours)
	if err != nil {
		return nil, err
	}
	if !partition.IsDefault() {
		o.Name = addresses.PartitionBackend(partition.Name)
	}
	o.Authorization.Complete()
	return &Completed{Options: o, Neighbours: neighbours, OwnPartition: partition}, nil
}

const (
	partitionFlag       = "partition"
	partitionGroupsFlag = "partition-groups"
)

// ownPartition returns the partition of this replica, or the first error in its flags.
func (o *Options) ownPartition(found backend.Neighbours) (definitions.Partition, error) {
	partition := definitions.Partition{Name: o.Partition}
	var err error
	switch {
	case found.Backends == nil:
		if partition.Table, err = partitions.Parse(o.PartitionGroups); err != nil {
			return partition, fmt.Errorf("--%s: %w", partitionGroupsFlag, err)
		}
	case len(o.PartitionGroups) > 0:
		return partition, fmt.Errorf("--%s takes the place of --%s", addresses.BackendsFileFlag, partitionGroupsFlag)
	default:
		if partition.Table, err = partitions.In(found.Backends.Services); err != nil {
			return partition, fmt.Errorf("--%s: %w", addresses.BackendsFileFlag, err)
		}
	}
	if _, known := partition.Table[o.Partition]; !known && !partition.IsDefault() {
		return partition, fmt.Errorf("--%s: no API groups are given for %q", partitionFlag, o.Partition)
	}
	if !partition.IsDefault() && len(found.Aggregator) == 0 {
		return partition, fmt.Errorf("--%s needs the aggregator (--aggregator-servers): it sends the status of definitions to the default "+
			"partition", partitionFlag)
	}
	return partition, nil
}
