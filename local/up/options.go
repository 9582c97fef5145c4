// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/local/replicas"
	aggregator "github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/list"
)

// Options say how to run an instance.
type Options struct {
	DataDir string
	// Ready is called when the instance is ready. It returns a line for the user. An error is reported, and the instance goes on. It may
	// be nil.
	Ready func() (string, error)
	// Detached gets a message when the instance is ready. It is nil for an instance that Ctrl-C stops.
	Detached *Parent
	// BindAddress and Port are where clients reach the instance. Port 0 means a free one.
	BindAddress net.IP
	Port        int

	// EtcdServers are the URLs of an etcd for all services. The other lists name an etcd for a single service. A service with
	// neither uses an embedded etcd.
	EtcdServers           []string
	CoreEtcdServers       []string
	ExtensionsEtcdServers []string
	AggregatorEtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile secure the connections to etcds that are not embedded.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string

	// CoreReplicas, ExtensionsReplicas and AggregatorReplicas are how many processes of each service to start with.
	CoreReplicas, ExtensionsReplicas, AggregatorReplicas int
	// Partitions are the partitions of extensions, NAME=GROUP[,GROUP...] each, and PartitionEtcdServers the etcds for the custom resources of
	// some, NAME=URL[,URL...] each.
	Partitions, PartitionEtcdServers []string
	// Services are additional API services, NAME=PATH each, and ServiceArgs more flags for them, NAME=--FLAG each.
	Services, ServiceArgs []string
	// Controllers runs kube-controller-manager and kube-scheduler. KwokNodes is the number of nodes without containers; any run the
	// controllers, too.
	Controllers bool
	KwokNodes   int
	// Optional says which of the optional services to run, too, as additional API services.
	Optional map[string]bool
	// SearchDatabase is the --database of search, and SearchDatabaseFile its --database-file. Without both, it uses a file in DataDir.
	SearchDatabase, SearchDatabaseFile string
	// LoadBalancer makes a balancer of TCP connections serve at Port. Without it the aggregators serve clients themselves:
	// the first one at Port, the second at the next port, and so on.
	LoadBalancer bool

	// APIServiceForm is the aggregator's --apiservice-form.
	APIServiceForm string
	// Shared are values of SharedFlags, by the name of the flag.
	Shared map[string][]string
	// CoreArgs, ExtensionsArgs and AggregatorArgs are additional flags for the services. In each, {replica} stands for the
	// name of the replica.
	CoreArgs, ExtensionsArgs, AggregatorArgs []string
}

// DefaultOptions are the options without any flags.
func DefaultOptions() Options {
	return Options{
		BindAddress: net.IPv4(127, 0, 0, 1), Port: 6443,
		CoreReplicas: 1, ExtensionsReplicas: 1, AggregatorReplicas: 1, Optional: map[string]bool{},
		APIServiceForm: string(aggregator.FormService),
	}
}

// maxReplicas bounds the replicas of a service. One machine has no use for more.
const maxReplicas = 20

// maxKwokNodes bounds the nodes without containers, each of which renews a Lease every few seconds.
const maxKwokNodes = 500

const maxPort = 65535

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	if o.BindAddress == nil {
		return errors.New("--bind-address is not an IP address")
	}
	if o.Port < 0 || o.Port > maxPort {
		return fmt.Errorf("--port %d is not between 0 and %d", o.Port, maxPort)
	}
	if (o.SearchDatabase != "" || o.SearchDatabaseFile != "") && !o.Optional[list.Search] {
		return errors.New("--search-database and --search-database-file need --search")
	}
	if err := o.validatePartitions(); err != nil {
		return err
	}
	if _, err := o.additionalPrograms(); err != nil {
		return err
	}
	if _, err := o.serviceArgs(""); err != nil {
		return err
	}
	for _, service := range list.RequiredNames() {
		if n := o.replicas(service); n < 1 || n > maxReplicas {
			return fmt.Errorf("--%s-replicas %d is not between 1 and %d", service, n, maxReplicas)
		}
	}
	if o.KwokNodes < 0 || o.KwokNodes > maxKwokNodes {
		return fmt.Errorf("--kwok-nodes %d is not between 0 and %d", o.KwokNodes, maxKwokNodes)
	}
	if last := o.Port + o.AggregatorReplicas - 1; last > maxPort && !o.LoadBalancer {
		return fmt.Errorf("--port %d with --aggregator-replicas %d would need port %d", o.Port, o.AggregatorReplicas, last)
	}
	if err := o.validateShared(); err != nil {
		return err
	}
	if (o.EtcdCertFile == "") != (o.EtcdKeyFile == "") {
		return errors.New("--etcd-certfile and --etcd-keyfile must be given together")
	}
	switch aggregator.APIServiceForm(o.APIServiceForm) {
	case aggregator.FormService, aggregator.FormLocal:
	default:
		return fmt.Errorf("--apiservice-form must be %q or %q, not %q", aggregator.FormService, aggregator.FormLocal, o.APIServiceForm)
	}
	for _, server := range o.externalEtcds() {
		if err := validateEtcdServer(server); err != nil {
			return err
		}
	}
	return nil
}

func validateEtcdServer(server string) error {
	u, err := url.Parse(server)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Port() == "" {
		return fmt.Errorf("etcd server %q is not of the form https://host:port", server)
	}
	return nil
}

// complete makes paths absolute, because processes with other working directories read them.
func (o *Options) complete() error {
	for _, path := range []*string{&o.DataDir, &o.SearchDatabaseFile, &o.EtcdCAFile, &o.EtcdCertFile, &o.EtcdKeyFile} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if err := o.completeServices(); err != nil {
		return err
	}
	return o.completeOptional()
}

// replicas returns how many replicas of a service to start with. Additional API services start with one.
func (o *Options) replicas(service string) int {
	switch service {
	case replicas.Core:
		return o.CoreReplicas
	case replicas.Extensions:
		return o.ExtensionsReplicas
	case replicas.Aggregator:
		return o.AggregatorReplicas
	}
	return 1
}

// etcdServers returns the etcd servers of a service: none if it uses the embedded etcd.
func (o *Options) etcdServers(service string) []string {
	if _, ok := addresses.PartitionOf(service); ok {
		service = replicas.Extensions
	}
	own := map[string][]string{
		replicas.Core:       o.CoreEtcdServers,
		replicas.Extensions: o.ExtensionsEtcdServers,
		replicas.Aggregator: o.AggregatorEtcdServers,
	}[service]
	if len(own) > 0 {
		return own
	}
	return o.EtcdServers
}

// needsEmbeddedEtcd reports whether a service uses the embedded etcd.
func (o *Options) needsEmbeddedEtcd() bool {
	return slices.ContainsFunc(o.services(), func(service string) bool { return len(o.etcdServers(service)) == 0 })
}

// externalEtcds returns the URLs of all etcd servers that are not embedded.
func (o *Options) externalEtcds() []string {
	own := o.partitionEtcds()
	all := slices.Concat(o.EtcdServers, o.CoreEtcdServers, o.ExtensionsEtcdServers, o.AggregatorEtcdServers)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		all = append(all, own[name]...)
	}
	return all
}
