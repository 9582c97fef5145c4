// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// local takes its parameters from a built-in kind.
const local = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME-local}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [limitranges]}]
  validations:
  - {expression: "has(params.data)", message: the parameter says no}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME-local}
spec:
  policyName: NAME-local
  validationActions: [Deny]
  paramRef: {name: limit, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
`

const limitRange = `{apiVersion: v1, kind: LimitRange, metadata: {}, spec: {limits: []}}`

// direct returns the administrator's configuration for a replica of core itself.
func direct(fleet *framework.Fleet) *rest.Config {
	config := fleet.Admin()
	config.Host, config.CAFile = fleet.Replica("core-0").URL, filepath.Join(fleet.PKI, "service-ca.crt")
	return config
}

func TestCoreStartsAndStaysWithoutAggregator(t *testing.T) {
	t.Parallel()
	both.NeedsTripod(t)
	fleet, err := framework.ForTest(t).StartFleet(t.Context(), framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--allow-direct-clients"}},
		{Name: "extensions-0", Later: true}, {Name: "aggregator-0", Later: true}, {Name: "aggregator-1", Later: true},
	}})
	if err != nil {
		t.Fatal("core alone does not become ready: ", err)
	}
	core, aggregators := fleet.Replica("core-0"), []*framework.Replica{fleet.Replica("aggregator-0"), fleet.Replica("aggregator-1")}

	t.Log("With the others")
	others := []*framework.Replica{fleet.Replica("extensions-0"), aggregators[0], aggregators[1]}
	forAll(t, others, (*framework.Replica).Start)
	forAll(t, others, func(r *framework.Replica) error { return r.WaitReady(t.Context()) })
	s := newScene(t, fleet.Cluster, "start")
	s.create(t, widgets)
	s.create(t, limit)
	s.create(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: limit, namespace: NAME}}`)
	s.create(t, limits)
	s.create(t, local)
	s.refused(t, direct(fleet), "at most 1 labels", twoLabels)
	s.refused(t, direct(fleet), "the parameter says no", limitRange)

	t.Log("An aggregator goes")
	forAll(t, aggregators[:1], (*framework.Replica).Kill)
	s.Cluster = fleet.Through("aggregator-1")
	s.setLimit(t, 3)
	s.refused(t, s.Admin(), "at most 3 labels", fourLabels)

	t.Log("Core starts while nobody else is there")
	forAll(t, []*framework.Replica{others[0], aggregators[1], core}, (*framework.Replica).Kill)
	forAll(t, []*framework.Replica{core}, (*framework.Replica).Start)
	require.NoError(t, core.WaitReady(t.Context()))
	s.refused(t, direct(fleet), "the parameter says no", limitRange)
	s.refused(t, direct(fleet), "failed to find resource referenced by paramKind", twoLabels)

	t.Log("The others come back")
	forAll(t, others, (*framework.Replica).Start)
	s.refused(t, direct(fleet), "at most 3 labels", fourLabels)
	s.created(t, direct(fleet), twoLabels, nil)
}

func forAll(t *testing.T, replicas []*framework.Replica, do func(*framework.Replica) error) {
	t.Helper()
	for _, r := range replicas {
		require.NoError(t, do(r))
	}
}
