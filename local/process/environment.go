// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"slices"
	"strings"
)

// NotifyVariable names the socket at which a service manager receives that a process serves (sd_notify(3)).
const NotifyVariable = "NOTIFY_SOCKET"

// ofOneProcess are the environment variables by which a service manager speaks with the process that it started: systemd's sd_notify(3),
// sd_watchdog_enabled(3) and sd_listen_fds(3). A child that had them would answer for its parent.
var ofOneProcess = []string{
	NotifyVariable, "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES",
	"MAINPID", "SYSTEMD_EXEC_PID",
}

// Environment returns the environment of a child: that of this process without what is for this process alone, and then more.
func Environment(more ...string) []string {
	return append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(ofOneProcess, name)
	}), more...)
}
