// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recovery turns panics into errors where a service handles data from another service.
//
// A panic in a goroutine ends the process, and elsewhere in Tripod that is right, as in Kubernetes: it is unknown what the panic has left
// behind. But one replica reports to all aggregators, again after they are restarted. So a false report that finds a mistake in our code
// must cost no more than that stream or document. Code that runs here leaves nothing behind: it unlocks with defer.
package recovery

import (
	"fmt"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// ToError sets err if the surrounding function panics. It must be deferred. what names the data; the log does not have its content, which
// may hold secrets.
func ToError(what string, err *error) {
	if reason := recover(); reason != nil {
		klog.ErrorS(nil, "Handling data from another service panicked", "what", what, "reason", reason, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%s: handling it panicked; the log says where", what)
	}
}
