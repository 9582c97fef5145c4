// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"io"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
)

// Flag is the name of the flag with the socket of the log's writer.
const Flag = "audit-log-socket"

// AddFlag adds the flag.
func AddFlag(flags *pflag.FlagSet, socket *string) {
	flags.StringVar(socket, Flag, *socket,
		"Unix socket of a process that writes the audit log of several services, as `tripod kube-apiserver` does. It takes the place of "+
			"--audit-log-path; that process rotates the file. The other flags --audit-log-* mean what they do with a file.")
}

// Validate returns the errors of the options of an audit log that is written through a socket.
func Validate(socket string, o *options.AuditOptions) []error {
	if socket == "" {
		return nil
	}
	// Without a path, the options of the log skip their validation.
	log := o.LogOptions
	log.Path = socket
	return log.Validate()
}

// Apply makes a server write audit events to the socket, if there is one. The options apply as they do to a file
// (k8s.io/apiserver/pkg/server/options). Call it after the options were applied to the server.
func Apply(config *server.Config, socket string, o *options.AuditOptions) {
	if socket == "" || config.AuditPolicyRuleEvaluator == nil {
		return
	}
	backend := newBackend(&remote{socket: socket}, &o.LogOptions)
	if config.AuditBackend != nil {
		backend = audit.Union(backend, config.AuditBackend)
	}
	config.AuditBackend = backend
}

func newBackend(w io.Writer, o *options.AuditLogOptions) audit.Backend {
	// The options are valid, so this does not fail.
	version, _ := schema.ParseGroupVersion(o.GroupVersionString)
	backend := log.NewBackend(w, o.Format, version)
	switch o.BatchOptions.Mode {
	case options.ModeBlockingStrict:
	case options.ModeBlocking:
		backend = ignoringErrors{backend}
	default:
		backend = buffered.NewBackend(backend, o.BatchOptions.BatchConfig)
	}
	if o.TruncateOptions.Enabled {
		backend = truncate.NewBackend(backend, o.TruncateOptions.TruncateConfig, version)
	}
	return backend
}

// ignoringErrors lets requests go on if their events are lost.
type ignoringErrors struct{ audit.Backend }

// ProcessEvents implements audit.Sink.
func (b ignoringErrors) ProcessEvents(events ...*auditinternal.Event) bool {
	b.Backend.ProcessEvents(events...)
	return true
}

// String implements audit.Backend.
func (b ignoringErrors) String() string { return "ignoreErrors<" + b.Backend.String() + ">" }
