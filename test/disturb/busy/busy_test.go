// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package busy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
)

// streams lets a connection have all watches of a herd.
const streams = "--http2-max-streams-per-connection=1000"

// start starts `tripod kube-apiserver`, or a stock one, with so many processors for each process.
func start(t *testing.T, dropIn bool, processors int) *framework.Stock {
	t.Helper()
	server, err := framework.ForTest(t).StartStock(t.Context(), framework.StockOptions{
		DropIn: dropIn, Args: []string{streams}, Env: []string{fmt.Sprintf("GOMAXPROCS=%d", processors)},
	})
	require.NoError(t, err)
	addAccount(t, server.Admin())
	return server
}

func addAccount(t *testing.T, config *rest.Config) {
	t.Helper()
	admin := clientOf(t, config)
	framework.Eventually(t, "the ServiceAccount exists", func(ctx context.Context) error {
		_, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		return err
	})
}

// verdicts are lines of the log by which a service gives up another one.
var verdicts = map[string]string{
	"ejected": `state="ejected"`, "frozen": `state="frozen"`, "silent": `state="silent"`, "streams lost": "Not following a replica any more",
	"connections given up": "Giving up the connections",
}

// givenUp counts these lines.
func givenUp(t *testing.T, server *framework.Stock) string {
	t.Helper()
	log, err := os.ReadFile(server.Process.Log)
	require.NoError(t, err)
	var found []string
	for name, line := range verdicts {
		if n := strings.Count(string(log), line); n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(found, ", ")
}

// TestAHerdIsRefusedByNobody has each service use one processor. Meanwhile core, and then the aggregator, gets no processor at all for longer than
// any other service may be silent if it can be spared.
func TestAHerdIsRefusedByNobody(t *testing.T) {
	const stands = 6 * time.Second
	fleet := framework.NewFleet(t, framework.FleetOptions{
		Env: []string{"GOMAXPROCS=1"}, Replicas: []framework.ReplicaOptions{
			{Name: "core-0", Args: []string{streams}}, {Name: "extensions-0"}, {Name: "aggregator-0", Args: []string{streams}},
		},
	})
	addAccount(t, fleet.Admin())
	reconnected := func() float64 {
		follows, err := fleet.Metric(t.Context(), "aggregator-0", "tripod_identity_client_follows_total")
		require.NoError(t, err)
		ejections, err := fleet.Metric(t.Context(), "aggregator-0", "tripod_backend_ejections_total")
		require.NoError(t, err)
		return follows + ejections
	}
	before := reconnected()
	h := herd{watches: 500, connections: 4, events: 40, pause: 50 * time.Millisecond, tokens: 10, opened: func() {
		for _, replica := range []string{"core-0", "aggregator-0"} {
			require.NoError(t, fleet.Replica(replica).Pause())
			time.Sleep(stands) // the time is the fault
			require.NoError(t, fleet.Replica(replica).Resume())
		}
	}}
	c := h.run(t, fleet.Admin())
	t.Log(c)
	c.expect(t, h)
	require.InDelta(t, before, reconnected(), 0, "a service that was busy was taken for dead")
}

// TestHerds compares Tripod with kube-apiserver in many rounds.
func TestHerds(t *testing.T) {
	if os.Getenv("BUSY") == "" {
		t.Skip("BUSY=1 runs it")
	}
	for _, processors := range []int{1, 2} {
		for _, dropIn := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d processors, Tripod %v", processors, dropIn), func(t *testing.T) {
				server := start(t, dropIn, processors)
				for _, watches := range []int{1000, 1000, 1000, 3000} {
					h := herd{watches: watches, connections: 4, events: 100, pause: 50 * time.Millisecond, tokens: 20}
					c := h.run(t, server.Admin())
					t.Logf("%s; %s", c, givenUp(t, server))
					c.expect(t, h)
				}
			})
		}
	}
}
