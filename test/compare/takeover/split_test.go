// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/admin/etcd/split"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

func TestCustomResourcesMoveToAnEtcdOfTheirOwn(t *testing.T) {
	environment, flag := framework.ForTest(t), encrypted(t)
	server, err := environment.StartStock(t.Context(), framework.StockOptions{Args: []string{flag}})
	require.NoError(t, err)
	populate(t, server.Cluster)
	client, err := dynamic.NewForConfig(server.Admin())
	require.NoError(t, err)
	before, err := client.Resource(inventory.Boats).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, server.Process.Stop())
	own, err := environment.StartEtcd(t.Context(), t.TempDir())
	require.NoError(t, err)
	sourceBefore := readEtcd(t, server.EtcdURL)

	report := migrate(t, environment, "--from", server.EtcdURL, "--extensions-to", own)
	t.Logf("%d objects copied, revision %d -> %d", report.Written, report.SourceRevision, report.TargetRevision)
	assert.Empty(t, sourceBefore.Differences(readEtcd(t, server.EtcdURL), isRestless), "the source was changed")

	fleet, err := environment.StartFleet(t.Context(), framework.FleetOptions{EtcdURL: server.EtcdURL, Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{flag}}, {Name: "extensions-0", EtcdURL: own, Args: []string{flag}}, {Name: "aggregator-0"},
	}})
	require.NoError(t, err)
	if client, err = dynamic.NewForConfig(fleet.Admin()); err != nil {
		t.Fatal(err)
	}
	after, err := client.Resource(inventory.Boats).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	if len(after.Items) != len(before.Items) || version(t, after.GetResourceVersion()) <= version(t, before.GetResourceVersion()) {
		t.Errorf("%d boats at %s became %d at %s", len(before.Items), before.GetResourceVersion(), len(after.Items), after.GetResourceVersion())
	}
	for i, was := range before.Items {
		is := after.Items[i]
		if version(t, is.GetResourceVersion()) <= version(t, was.GetResourceVersion()) {
			t.Errorf("the version of %s went from %s to %s", was.GetName(), was.GetResourceVersion(), is.GetResourceVersion())
		}
		was.SetResourceVersion(is.GetResourceVersion())
		assert.Empty(t, cmp.Diff(was.Object, is.Object), was.GetName())
	}
	watching, err := client.Resource(inventory.Boats).Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	require.NoError(t, err)
	defer watching.Stop()
	if event := <-watching.ResultChan(); event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Errorf("a watch from before the move gets %v, want 410", event)
	}

	work(t, fleet.Admin())
	for key := range readEtcd(t, own) {
		if !strings.HasPrefix(key, "/registry/apiextensions.k8s.io/") && !strings.HasPrefix(key, "/registry/example.com/") &&
			!strings.HasPrefix(key, "/registry/sub.example.com/") {
			t.Errorf("the etcd of extensions has %s", key)
		}
	}
	if _, wrote := readEtcd(t, server.EtcdURL)["/registry/example.com/boats/takeover/new"]; wrote {
		t.Error("a boat was written to the etcd of core")
	}
}

func migrate(t *testing.T, environment *framework.Environment, args ...string) *split.Report {
	t.Helper()
	command := exec.CommandContext(t.Context(), environment.Binary("tripod"), append([]string{"migrate", "split-etcd", "-o", "json"}, args...)...)
	progress := &strings.Builder{}
	command.Stderr = progress
	out, err := command.Output()
	if err != nil {
		t.Fatalf("tripod migrate split-etcd: %v\n%s", err, progress)
	}
	report := &split.Report{}
	require.NoError(t, json.Unmarshal(out, report))
	return report
}

func version(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	number, err := strconv.ParseUint(resourceVersion, 10, 64)
	require.NoError(t, err)
	return number
}
