// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

// health asks how the server does. Package introspection asks the same of each path and service, as more users.
var health = []request{
	get("/healthz"), get("/healthz").as(anonymous), get("/healthz").as(nobody), get("/healthz").as(invalidToken),
	get("/livez"), get("/livez").as(anonymous), get("/livez?verbose"), get("/livez?exclude=ping"), get("/livez/ping"),
	get("/readyz"), get("/readyz").as(anonymous), get("/readyz?verbose"), get("/readyz?exclude=unknown"), get("/readyz/etcd"),
	get("/healthz?verbose"), get("/healthz/ping"), get("/healthz/ping").as(anonymous), get("/healthz/etcd"), get("/healthz/log"),
	get("/healthz/poststarthook/rbac/bootstrap-roles"), get("/readyz/poststarthook/crd-informer-synced"),
	get("/readyz?verbose&exclude=poststarthook/rbac/bootstrap-roles&exclude=unknown").ignoringBody(),
	get("/readyz/").called("readyz with a slash at its end"),
	get("/readyz/unknown"),
	get("/metrics").ignoringBody(),
	get("/metrics").as(anonymous),
	get("/metrics").as(nobody),
	get("/metrics").accept("application/openmetrics-text;version=1.0.0").ignoringBody(),
	get("/metrics/slis").ignoringBody(),
	get("/statusz").ignoringBody(), get("/statusz").accept("text/plain").ignoringBody(),
	get("/flagz").ignoringBody(), get("/flagz").accept("text/plain").ignoringBody(),
	get("/debug/pprof/").ignoringBody(), get("/debug/pprof").ignoringBody(), get("/debug/pprof/cmdline").ignoringBody(),
	get("/debug/pprof/").as(nobody),
	put("/debug/flags/v", "nonsense").body("text/plain", "nonsense"),
	get("/debug/api_priority_and_fairness/dump_priority_levels").ignoringBody(),
	get("/debug/api_priority_and_fairness/dump_queues").ignoringBody(),
	get("/configz"),
}
