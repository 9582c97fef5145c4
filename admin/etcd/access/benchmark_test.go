// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaseKeys are how many keys a lease has before an event is put: up to 50 in Tripod, and 1000 in kube-apiserver.
var leaseKeys = []int{0, 25, 49, 99, 999}

// BenchmarkAuthentication does the same, in turn, in an etcd with users and in one without. x is the ratio of
// the medians.
func BenchmarkAuthentication(b *testing.B) {
	clients := map[string]*clientv3.Client{}
	leases := map[string]map[int]clientv3.LeaseID{}
	for _, name := range []string{"with", "without"} {
		s := start(b)
		if name == "with" {
			changes(b, s.as(b, Root), Options{Prefix: "/registry"})
		}
		client := s.as(b, Core)
		require.NoError(b, Await(b.Context(), client))
		clients[name], leases[name] = client, map[int]clientv3.LeaseID{}
		for _, keys := range leaseKeys {
			lease, err := client.Grant(b.Context(), 3600)
			require.NoError(b, err)
			for i := range keys {
				_, err := client.Put(b.Context(), fmt.Sprintf("/registry/events/%d/%d", keys, i), "", clientv3.WithLease(lease.ID))
				require.NoError(b, err)
			}
			leases[name][keys] = lease.ID
		}
	}
	key, value := "/registry/configmaps/default/a", string(make([]byte, 1000))
	operations := map[string]func(name string) error{
		"get": func(name string) error { _, err := clients[name].Get(b.Context(), key); return err },
		"list": func(name string) error {
			_, err := clients[name].Get(b.Context(), "/registry/events/999/", clientv3.WithPrefix())
			return err
		},
		"update": func(name string) error {
			_, err := clients[name].Txn(b.Context()).If(clientv3.Compare(clientv3.ModRevision(key), ">", -1)).
				Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit()
			return err
		},
		"lease": func(name string) error { _, err := clients[name].Grant(b.Context(), 3600); return err },
		"watch": func(name string) error {
			watch := clients[name].Watch(b.Context(), "/registry/configmaps/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
			created := <-watch
			return created.Err()
		},
	}
	for _, keys := range leaseKeys {
		// Always the same key, so that the lease does not grow.
		event := fmt.Sprintf("/registry/events/%d/last", keys)
		operations[fmt.Sprintf("event with %d others", keys)] = func(name string) error {
			_, err := clients[name].Put(b.Context(), event, value, clientv3.WithLease(leases[name][keys]))
			return err
		}
	}
	for what, do := range operations {
		b.Run(what, func(b *testing.B) {
			spent := map[string][]time.Duration{}
			for b.Loop() {
				for _, name := range []string{"with", "without"} {
					began := time.Now()
					require.NoError(b, do(name))
					spent[name] = append(spent[name], time.Since(began))
				}
			}
			median := func(name string) float64 {
				return float64(slices.Sorted(slices.Values(spent[name]))[len(spent[name])/2])
			}
			b.ReportMetric(median("with")/median("without"), "x")
			b.ReportMetric((median("with")-median("without"))/1000, "µs-more")
		})
	}
}
