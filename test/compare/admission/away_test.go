// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// There is nothing to compare this with: without core, kube-apiserver is not there.
func TestAdmissionThatNeedsCoreIsRefusedWhileThatIsAway(t *testing.T) {
	both.NeedsTripod(t)
	fleet := framework.NewFleet(t, framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0"},
		{Name: "extensions-0", Args: []string{"--enable-admission-plugins=NamespaceAutoProvision", "--authorization-mode=Node"}},
		{Name: "aggregator-0"},
	}})
	require.NoError(t, fleet.Create(t.Context(), definitions))
	s := newSide("tripod", fleet.Cluster, nil)
	s.mustTake(t, "counted", []step{post("/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: counted}}")})
	s.mustTake(t, "counted", quota("widgets", `{"count/widgets.example.com": "5"}`, `{"count/widgets.example.com": "0"}`))
	s.mustTake(t, "counted", settle(post(widgets, probe("{}")), get(inNamespace+"resourcequotas/widgets").containing(`"used":{"count/widgets.example.com":"1"}`)))

	s.mustTake(t, "asking", []step{post("/api/v1/namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: asking, labels: {team: asking}}}`)})
	s.mustTake(t, "asking", allow(nodeOne, "one", `[{apiGroups: [example.com], resources: [widgets], verbs: [create]}]`))
	s.mustTake(t, "asking", slices.Concat(podsOnNodes(), refusing()))
	s.mustTake(t, "asking", settle(refused(askingForSecret("of-two")).as(nodeOne), post(widgets, askingForSecret("of-one")).as(nodeOne)))

	core := fleet.Replica("core-0")
	require.NoError(t, core.Stop())
	const cannotAsk = "admission cannot ask core"
	s.mustTake(t, "default", []step{post(widgets, anyWidget("{}"))})
	s.mustTake(t, "counted", []step{post(widgets, anyWidget("{}")).refused(http.StatusServiceUnavailable, cannotAsk)})
	s.mustTake(t, "new", []step{post(widgets, anyWidget("{}")).refused(http.StatusServiceUnavailable, cannotAsk)})
	// The authorizer in the CEL of a policy denies.
	s.mustTake(t, "asking", []step{refused(askingForSecret("of-one")).as(nodeOne), post(widgets, anyWidget("{color: any}")).as(nodeOne)})

	require.NoError(t, core.Start())
	require.NoError(t, core.WaitReady(t.Context()))
	// What was refused has no effect later.
	s.mustTake(t, "counted", settle(get(inNamespace+"resourcequotas/widgets").containing(`"used":{"count/widgets.example.com":"1"}`)))
	s.mustTake(t, "new", settle(get("/api/v1/namespaces/{ns}").refused(http.StatusNotFound, "not found")))
	s.mustTake(t, "new", settle(post(widgets, anyWidget("{}"))))
	s.mustTake(t, "asking", settle(post(widgets, askingForSecret("of-one")).as(nodeOne)))
	s.mustTake(t, "counted", settle(post(widgets, anyWidget("{}"))))
	s.mustTake(t, "counted", []step{get(inNamespace + "resourcequotas/widgets").containing(`"used":{"count/widgets.example.com":"2"}`)})
}
