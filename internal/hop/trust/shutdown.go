// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"k8s.io/apiserver/pkg/server/options"
)

// drainDelay is how long a service goes on after it has said that it will stop: longer than aggregators take to hear it. What
// stands before aggregators may take longer to see that one is not ready.
const drainDelay = time.Second

// watchTermination is how long ending watches may take when a backend stops. kube-apiserver's default is not to end them, and
// then its shutdown lasts a minute when there are any. Here other services always watch.
const watchTermination = 10 * time.Second

// SetShutdownDefaults makes a service stop in the way that its clients lose nothing by: those of a backend are aggregators, and
// those of an aggregator go where it is ready, or come to the next one by a balancer.
func SetShutdownDefaults(o *options.ServerRunOptions) {
	o.ShutdownDelayDuration = drainDelay
	o.ShutdownWatchTerminationGracePeriod = watchTermination
	// It listens until requests in flight are done, and tells late ones to go elsewhere. Without this it first closes its
	// connections, and an HTTP/2 connection that is made in that moment holds it up for a minute: it is not told.
	o.ShutdownSendRetryAfter = true
}
