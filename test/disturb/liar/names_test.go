// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package liar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// namesPeriod is enough for a replica to look up names, and to ask the replicas that it finds whether they are ready.
const namesPeriod = 15 * time.Second

// TestReplicasStayWhereTheirNameLeadsNowhereElse has the aggregator and extensions find replicas by names, which then lead to an address where
// none is. Each process has a file of names of its own (/etc/hosts).
func TestReplicasStayWhereTheirNameLeadsNowhereElse(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no files of its own for a process: %v: %s", err, out)
	}
	const domain, coreAt, extensionsAt, nowhere = "liar.test", "127.0.71.1", "127.0.71.2", "127.0.71.9"
	env := framework.ForTest(t)
	etcd, err := env.StartEtcd(t.Context(), env.Dir)
	require.NoError(t, err)
	hosts := filepath.Join(env.Dir, "hosts")
	say := func(core, extensions string) {
		t.Helper()
		names := fmt.Sprintf("127.0.0.1 localhost\n%s core.%s\n%s extensions.%s\n", core, domain, extensions, domain)
		require.NoError(t, os.WriteFile(hosts, []byte(names), 0o600)) // in place: it is mounted
	}
	say(coreAt, extensionsAt)
	wrap := []string{"unshare", "--map-root-user", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}
	named, err := env.StartFleet(t.Context(), framework.FleetOptions{EtcdURL: etcd, Domain: domain, Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Address: coreAt}, {Name: "extensions-0", Address: extensionsAt, Wrap: wrap}, {Name: "aggregator-0", Wrap: wrap},
	}})
	require.NoError(t, err)

	for replica, service := range map[string]string{"aggregator-0": "core", "extensions-0": "core"} {
		// A replica that was not ready when extensions asked it last is not kept. Then the names have to lead there for another while.
		isNowhere, since := false, time.Time{}
		framework.Eventually(t, replica+" keeps the replicas of "+service, func(context.Context) error {
			log, err := os.ReadFile(named.Replica(replica).Process().Log)
			if err != nil || bytes.Contains(log, []byte(`"A name leads to no replica that is ready, keeping those that are" service="`+service+`"`)) {
				return err
			}
			if time.Since(since) > namesPeriod {
				isNowhere, since = !isNowhere, time.Now()
				if isNowhere {
					say(nowhere, nowhere)
				} else {
					say(coreAt, extensionsAt)
				}
			}
			return errors.New("it says nothing about that")
		})
		say(nowhere, nowhere)
	}
	client := traffic.NewClient(t, named.Admin(), 1)
	client.Need(t, http.MethodGet, "/api/v1/namespaces/default", nil)
	client.Need(t, http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", nil)
	client.Need(t, http.MethodPost, "/api/v1/namespaces/default/configmaps", []byte(`{"metadata":{"name":"written"}}`))
}
