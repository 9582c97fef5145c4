// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package foreign makes errors of panics where a service handles what another one says.
//
// A panic in a goroutine ends the process, and elsewhere in Tripod that is right, as in Kubernetes: it is unknown what the panic has left
// behind. But what one replica says reaches all aggregators, again after they are restarted. So a lie that finds a mistake in our code must
// cost no more than that stream or document. Code that runs here leaves nothing behind: it unlocks with defer.
package foreign

import (
	"fmt"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// Recover makes an error of a panic. It must be deferred. what names what was handled; the log does not have its content, which may hold
// secrets.
func Recover(what string, err *error) {
	if reason := recover(); reason != nil {
		klog.ErrorS(nil, "Handling what another service says panicked", "what", what, "reason", reason, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%s: handling it panicked; the log says where", what)
	}
}
