// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServersTellAboutThemselves(t *testing.T) {
	table := NewTable(func(string) bool { return false }, "wardle")
	for in, want := range map[string]Target{
		"/metrics":                                     {Owner: Aggregator},
		"/metrics?service=core":                        {Owner: Core},
		"/metrics/slis?service=extensions":             {Owner: Extensions},
		"/metrics?service=core&replica=127.0.0.1:6444": {Owner: Core, Replica: "127.0.0.1:6444"},
		"/metrics?service=aggregator":                  {Owner: Aggregator},
		"/metrics?service=other":                       {Owner: Aggregator},
		"/metrics?replica=127.0.0.1:6444":              {Owner: Aggregator},
		"/readyz/etcd?service=core":                    {Owner: Core},
		"/statusz?service=core":                        {Owner: Core},
		"/flagz?service=core":                          {Owner: Core},
		"/debug/pprof/heap?service=extensions":         {Owner: Extensions},
		"/metrics?service=wardle&replica=127.0.0.1:1":  {Owner: "wardle", Replica: "127.0.0.1:1"},
		"/debug/flags/v?service=core":                  {Owner: Core},
		"/debug/pprof/heap":                            {Owner: Aggregator},

		"/debug/api_priority_and_fairness/dump_queues":                    {Owner: Core},
		"/debug/api_priority_and_fairness/dump_queues?service=aggregator": {Owner: Aggregator},
		"/debug/api_priority_and_fairness/dump_queues?service=extensions": {Owner: Extensions},

		"/migration/wardle.example.com?service=wardle":                     {Owner: "wardle"},
		"/migration/wardle.example.com/flunders?version=v1&service=wardle": {Owner: "wardle"},
		"/migration/wardle.example.com?service=wardle&replica=127.0.0.1:1": {Owner: "wardle"},
		"/migration/wardle.example.com?service=core":                       {Owner: Aggregator},
		"/migration/wardle.example.com?service=extensions":                 {Owner: Extensions},
		"/migration/wardle.example.com":                                    {Owner: Core},
		"/migrations/wardle.example.com?service=wardle":                    {Owner: Core},

		"/version?service=extensions":                  {Owner: Core},
		"/openapi/v2?service=core":                     {Owner: Aggregator},
		"/?service=core":                               {Owner: Aggregator},
		"/api/v1/pods?service=extensions":              {Owner: Unknown},
		"/apis/apiextensions.k8s.io/v1/x?service=core": {Owner: Extensions},
	} {
		u, err := url.Parse(in)
		require.NoError(t, err)
		if got := table.RouteURL(u); got.Owner != want.Owner || got.Replica != want.Replica {
			t.Errorf("%s goes to %s %q, want %s %q", in, got.Owner, got.Replica, want.Owner, want.Replica)
		}
	}
}

func TestUnknownServices(t *testing.T) {
	table := completeTable()
	for in, want := range map[string]bool{
		"/healthz": false, "/healthz?a=b": false, "/healthz?service=core": false, "/metrics?service=aggregator": false,
		"/migration/a?service=core": true, "/migration/a?service=other": true,
		"/healthz?service=": true, "/healthz?service=etcd": true, "/api/v1/pods?service=etcd": false,
	} {
		u, err := url.Parse(in)
		require.NoError(t, err)
		assert.Equal(t, want, table.RouteURL(u).UnknownService, in)
	}
}
