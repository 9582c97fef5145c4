// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package servicetrust

import (
	"time"

	"k8s.io/apiserver/pkg/server/options"
)

// drainDelay is how long a backend serves on after it has said that it will stop: longer than that takes to be heard.
const drainDelay = time.Second

// watchTermination is how long ending watches may take when a backend stops. kube-apiserver's default is not to end them, and
// then its shutdown lasts a minute when there are any. Here other services always watch.
const watchTermination = 10 * time.Second

// SetShutdownDefaults makes a backend stop in the way that its clients, the aggregators, lose nothing by.
func SetShutdownDefaults(o *options.ServerRunOptions) {
	o.ShutdownDelayDuration = drainDelay
	o.ShutdownWatchTerminationGracePeriod = watchTermination
	// It listens until requests in flight are done, and tells late ones to go elsewhere. Without this it first closes its
	// connections, and an HTTP/2 connection that is made in that moment holds it up for a minute: it is not told.
	o.ShutdownSendRetryAfter = true
}
