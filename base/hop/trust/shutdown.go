// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"k8s.io/apiserver/pkg/server/options"
)

// drainDelay is how long a service keeps serving after it announced its shutdown. Aggregators learn of it sooner. A load balancer in front
// of aggregators may need longer; --shutdown-delay-duration sets that.
const drainDelay = time.Second

// watchTermination is how long a stopping service takes to end its watches. kube-apiserver does not end them by default, and its shutdown
// takes a minute if any are open. In Tripod other services always have watches open.
const watchTermination = 10 * time.Second

// SetShutdownDefaults makes a service stop without losing requests. The clients of a backend are aggregators, which choose another replica.
// The clients of an aggregator reach another one through a load balancer.
func SetShutdownDefaults(o *options.ServerRunOptions) {
	o.ShutdownDelayDuration = drainDelay
	o.ShutdownWatchTerminationGracePeriod = watchTermination
	// The server keeps its listener open until requests in flight are done, and answers new ones with 429 and Retry-After. By default it
	// closes the listener first. An HTTP/2 connection made at that moment gets no GOAWAY, and delays the shutdown by a minute.
	o.ShutdownSendRetryAfter = true
}
