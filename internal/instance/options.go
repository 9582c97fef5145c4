// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/tripod-k8s/tripod/internal/launch"
	aggregator "github.com/tripod-k8s/tripod/services/aggregator/options"
)

// Options say how to run an instance.
type Options struct {
	DataDir string
	// BindAddress and Port are where clients reach the instance. Port 0 takes a free one.
	BindAddress net.IP
	Port        int

	// EtcdServers are the URLs of an etcd that all services use, and the other lists of one that a single service uses.
	// A service with neither uses an embedded etcd.
	EtcdServers           []string
	CoreEtcdServers       []string
	ExtensionsEtcdServers []string
	AggregatorEtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile secure the connections to etcds that are not embedded.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string

	// APIServiceForm is the aggregator's --apiservice-form.
	APIServiceForm string
	// CoreArgs, ExtensionsArgs and AggregatorArgs are further flags for the services.
	CoreArgs, ExtensionsArgs, AggregatorArgs []string
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	if o.BindAddress == nil {
		return errors.New("--bind-address is not an IP address")
	}
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port %d is not between 0 and 65535", o.Port)
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
		u, err := url.Parse(server)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Port() == "" {
			return fmt.Errorf("etcd server %q is not of the form https://host:port", server)
		}
	}
	return nil
}

// complete makes paths absolute, because they end up in files that are read from elsewhere.
func (o *Options) complete() error {
	for _, path := range []*string{&o.DataDir, &o.EtcdCAFile, &o.EtcdCertFile, &o.EtcdKeyFile} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return nil
}

// etcdServers returns the etcd servers of a service; there are none when it uses the embedded etcd.
func (o *Options) etcdServers(service string) []string {
	own := map[string][]string{
		launch.Core:       o.CoreEtcdServers,
		launch.Extensions: o.ExtensionsEtcdServers,
		launch.Aggregator: o.AggregatorEtcdServers,
	}[service]
	if len(own) > 0 {
		return own
	}
	return o.EtcdServers
}

// needsEmbeddedEtcd reports whether a service uses the embedded etcd.
func (o *Options) needsEmbeddedEtcd() bool {
	return slices.ContainsFunc(services, func(service string) bool { return len(o.etcdServers(service)) == 0 })
}

// externalEtcds returns the URLs of all etcd servers that are not embedded.
func (o *Options) externalEtcds() []string {
	return slices.Concat(o.EtcdServers, o.CoreEtcdServers, o.ExtensionsEtcdServers, o.AggregatorEtcdServers)
}

// services in the order in which they start.
var services = []string{launch.Core, launch.Extensions, launch.Aggregator}
