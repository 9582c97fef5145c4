// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/spf13/pflag"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
)

const aggregatorFlag = "aggregator-servers"

// AggregatorOptions say where a backend finds the aggregator. A backend starts and serves without one.
type AggregatorOptions struct {
	// Servers are the URLs of replicas, or of load balancers in front of them, in order of preference.
	Servers []string
}

// AddFlags adds --aggregator-servers.
func (o *AggregatorOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Servers, aggregatorFlag, o.Servers,
		"URLs of the replicas of the aggregator (https://host:port), comma separated, or of a load balancer in front of them. "+
			"For admission, this service asks the first that it can reach about API groups that it does not serve. "+
			"Without this flag, admission takes these groups for unavailable.")
}

// Find returns where the aggregator is, from the flag or, if set, from the backends file.
func (o *AggregatorOptions) Find(backends *addresses.Backends) ([]addresses.Location, []error) {
	if backends == nil {
		return ParseServers("--"+aggregatorFlag, o.Servers, false)
	}
	if len(o.Servers) > 0 {
		return nil, []error{fmt.Errorf("--%s takes the place of --%s", addresses.BackendsFileFlag, aggregatorFlag)}
	}
	return aggregatorIn(backends)
}

func aggregatorIn(backends *addresses.Backends) ([]addresses.Location, []error) {
	return ParseServers("--"+addresses.BackendsFileFlag+": servers of aggregator", backends.Aggregator.Servers, false)
}

// NewAggregator returns a link to the aggregator.
func NewAggregator(servers []addresses.Location, trust trust.Options) *Link {
	return New("aggregator", servers, trust)
}

// FollowAggregator updates a link to the aggregator whenever the backends file changes.
func (l *Link) FollowAggregator(backends *addresses.Backends) {
	servers, errs := aggregatorIn(backends)
	if len(errs) > 0 {
		klog.ErrorS(utilerrors.NewAggregate(errs), "The aggregator stays where it was")
		return
	}
	l.SetServers(servers)
}
