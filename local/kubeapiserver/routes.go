// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

// routes are the flags that do not simply go to each service that has a flag of that name.
var routes = map[string]rule{
	// The public endpoint is the aggregator's. Core and extensions serve on loopback ports with certificates of their
	// own, and Tripod's services speak TLS by their own rules to each other.
	"bind-address":                     only(aggregator),
	"secure-port":                      only(aggregator),
	"permit-address-sharing":           only(aggregator),
	"permit-port-sharing":              only(aggregator),
	"tls-sni-cert-key":                 only(aggregator),
	"tls-cipher-suites":                only(aggregator),
	"tls-curve-preferences":            only(aggregator),
	"tls-min-version":                  only(aggregator),
	"disable-http2-serving":            only(aggregator),
	"http2-max-streams-per-connection": only(aggregator),

	// The plan names the certificate that results, which may be a new one in --cert-dir.
	"cert-dir":             derived,
	"tls-cert-file":        derived,
	"tls-private-key-file": derived,

	// The aggregator does what is done once per response or connection of a client.
	"cors-allowed-origins":                 only(aggregator),
	"strict-transport-security-directives": only(aggregator),
	"goaway-chance":                        only(aggregator),

	// Only the aggregator calls aggregated API servers. Core has the flags for peers, which Tripod refuses.
	"proxy-client-cert-file": only(aggregator),
	"proxy-client-key-file":  only(aggregator),

	// The aggregator stops first, with the given delay. When extensions and core stop after it, they have no clients left that
	// would have to retry or whose watches would have to end gently.
	"shutdown-delay-duration":                 only(aggregator),
	"shutdown-send-retry-after":               only(aggregator),
	"shutdown-watch-termination-grace-period": only(aggregator),

	// All services advertise one address, which may follow from --bind-address.
	"advertise-address": derived,

	// Core and extensions own the capacity and share the limits.
	"max-requests-inflight":          derived,
	"max-mutating-requests-inflight": derived,

	// The audit log has one writer, which is not a service.
	"audit-log-path":      derived,
	"audit-log-maxage":    derived,
	"audit-log-maxbackup": derived,
	"audit-log-maxsize":   derived,
	"audit-log-compress":  derived,

	// A socket has one owner.
	"debug-socket-path": ownFile,

	// Extensions and the aggregator refuse the name of an admission plugin that they do not have. The old --admission-control, a
	// complete list, is translated in the plan. All read the file of --admission-control-config-file, and each its own
	// part of it.
	"enable-admission-plugins":  ownPlugins,
	"disable-admission-plugins": ownPlugins,
	"admission-control":         only(core),
}
