// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"net"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/tripod-k8s/tripod/base/service/auditlog"
	aggregatoroptions "github.com/tripod-k8s/tripod/services/aggregator/options"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
	"github.com/tripod-k8s/tripod/services/shared/plugins"
)

// plan has the flags as given, and what the services need to know besides.
type plan struct {
	given []flagValue
	// groups are the API groups of the partitions of extensions.
	groups partitions.Table

	bindAddress      net.IP
	securePort       int
	advertiseAddress net.IP
	certificate      genericoptions.GeneratableKeyCert
	// readOnly and mutating are the limits of requests in flight. 0 means no limit.
	readOnly, mutating int
	// admissionControl is the complete list of admission plugins, if --admission-control gave one.
	admissionControl []string
	// auditLog has the options of the audit log.
	auditLog genericoptions.AuditLogOptions
	logs     logsapi.LoggingConfiguration
	// gates are feature gates that every service gets after those that were given.
	gates []flagValue
	// etcd says how to reach etcd.
	etcd storagebackend.Config
	// shutdownDelay, watchGrace and drain bound how long a server may take to stop.
	shutdownDelay, watchGrace, drain time.Duration
	// sendRetryAfter is whether a stopping server listens until its requests are done.
	sendRetryAfter bool
	// handsOver is whether another aggregator takes the requests of one that stops. Then the aggregator's own defaults of a shutdown apply,
	// since those of kube-apiserver reject requests.
	handsOver bool
}

// newPlan makes the plan from valid options.
func newPlan(given []flagValue, o options.CompletedOptions) (*plan, error) {
	generic := o.GenericServerRunOptions
	s := &plan{
		given:            given,
		bindAddress:      o.SecureServing.BindAddress,
		securePort:       o.SecureServing.BindPort,
		advertiseAddress: generic.AdvertiseAddress,
		certificate:      o.SecureServing.ServerCert,
		readOnly:         generic.MaxRequestsInFlight,
		mutating:         generic.MaxMutatingRequestsInFlight,
		admissionControl: o.Admission.PluginNames,
		auditLog:         o.Audit.LogOptions,
		logs:             *o.Logs,
		gates:            switchedOff(generic.ComponentGlobalsRegistry.FeatureGateFor(generic.ComponentName), given),
		etcd:             o.Etcd.StorageConfig,
		shutdownDelay:    generic.ShutdownDelayDuration,
		watchGrace:       generic.ShutdownWatchTerminationGracePeriod,
		drain:            generic.RequestTimeout,
		sendRetryAfter:   generic.ShutdownSendRetryAfter,
	}
	// This reads the files of authentication, and so finds errors in them before any process starts.
	_, err := o.Authentication.ToAuthenticationConfig()
	return s, err
}

// arguments returns the arguments of a service, except those by which the services find and trust each other. auditLog are the flags of its
// audit log, if there is one.
func (s *plan) arguments(to serviceName, known *catalog, certificate genericoptions.CertKey, auditLog []flagValue) []string {
	flags := known.route(to, s.given)
	flags = append(flags, flagValue{"advertise-address", s.advertiseAddress.String()})
	switch program(to) {
	case core:
		flags = append(flags, s.limits(coreShare)...)
	case extensions:
		flags = append(flags, s.limits(extensionsShare)...)
		flags = append(flags, s.admission(to)...)
	case aggregator:
		flags = append(flags, s.admission(to)...)
		flags = append(flags, s.limits(whole)...)
		flags = append(flags, public(certificate)...)
		if !s.handsOver {
			flags = append(flags, s.shutdown()...)
		}
	}
	if s.auditLog.Path != "" {
		flags = append(flags, auditLog...)
	}
	flags = append(flags, s.gates...)

	args := make([]string, 0, len(flags))
	for _, flag := range flags {
		args = append(args, flag.String())
	}
	return args
}

// throughSocket are the flags of an audit log that another process writes.
func throughSocket(socket string) []flagValue { return []flagValue{{auditlog.Flag, socket}} }

// public are the flags of the public endpoint.
func public(certificate genericoptions.CertKey) []flagValue {
	return []flagValue{
		{"tls-cert-file", certificate.CertFile},
		{"tls-private-key-file", certificate.KeyFile},
		{"apiservice-form", string(aggregatoroptions.FormLocal)},
	}
}

// shutdown returns the flags that make the aggregator stop as kube-apiserver does. Its own defaults differ.
func (s *plan) shutdown() []flagValue {
	return []flagValue{
		{"shutdown-delay-duration", s.shutdownDelay.String()},
		{"shutdown-watch-termination-grace-period", s.watchGrace.String()},
		{"shutdown-send-retry-after", strconv.FormatBool(s.sendRetryAfter)},
	}
}

// limits returns the flags with a service's share of the limits of requests in flight.
func (s *plan) limits(share func(int) int) []flagValue {
	return []flagValue{
		{"max-requests-inflight", strconv.Itoa(share(s.readOnly))},
		{"max-mutating-requests-inflight", strconv.Itoa(share(s.mutating))},
	}
}

// coreShare is two thirds: core serves what nodes and most controllers work with.
func coreShare(limit int) int { return limit - limit/3 }

// extensionsShare is the rest. A limit of one must not become zero, which would mean no limit.
func extensionsShare(limit int) int { return max(limit/3, min(limit, 1)) }

func whole(limit int) int { return limit }

// admission translates --admission-control for a service other than core, as kube-apiserver does, into plugins to turn on and off.
func (s *plan) admission(to serviceName) []flagValue {
	if s.admissionControl == nil {
		return nil
	}
	here := sets.New(pluginsOf[program(to)].Names()...)
	on := here.Intersection(sets.New(s.admissionControl...))
	off := here.Difference(on)
	var flags []flagValue
	if on.Len() > 0 {
		flags = append(flags, flagValue{plugins.EnableFlag, strings.Join(sets.List(on), ",")})
	}
	if off.Len() > 0 {
		flags = append(flags, flagValue{plugins.DisableFlag, strings.Join(sets.List(off), ",")})
	}
	return flags
}
