// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"k8s.io/apiserver/pkg/server/options"
)

// drainDelay is how long a service goes on serving after it announced its shutdown. Aggregators hear of it sooner. A load balancer before the
// aggregators may need longer, and then --shutdown-delay-duration.
const drainDelay = time.Second

// watchTermination is the time over which a stopping service ends its watches. By default kube-apiserver does not end them, and its shutdown
// takes a minute while there are any. Here other services always watch.
const watchTermination = 10 * time.Second

// SetShutdownDefaults makes a service stop without losing a request. The clients of a backend are aggregators, which choose another replica.
// The clients of an aggregator reach another one through a load balancer.
func SetShutdownDefaults(o *options.ServerRunOptions) {
	o.ShutdownDelayDuration = drainDelay
	o.ShutdownWatchTerminationGracePeriod = watchTermination
	// The server listens until requests in flight are done, and answers new ones with 429 and Retry-After. Without this it closes its listener
	// first, and an HTTP/2 connection made at that moment delays the shutdown by a minute, because it gets no GOAWAY.
	o.ShutdownSendRetryAfter = true
}
