// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

// identityGrace is for how long an aggregator of the fleet accepts cached tokens while it finds no core.
const identityGrace = 3 * time.Second

// fleet is Tripod with several replicas.
type fleet struct {
	*framework.Fleet
	side
	// slow holds back what etcd sends to core-1.
	slow *delayProxy
	etcd string
}

// Tests of several replicas run one after the other, each with the same fleet. In the last ones replicas end.
func TestSeveralReplicas(t *testing.T) {
	both.NeedsTripod(t)
	t.Parallel()
	f, err := startFleet(t.Context())
	require.NoError(t, err)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"backends believe only the aggregator", f.backendsBelieveOnlyTheAggregator},
		{"backends need an envelope of the aggregator", f.backendsNeedAnEnvelopeOfTheAggregator},
		{"services speak for nobody else", f.servicesSpeakForNobodyElse},
		{"only the aggregator may ask core about tokens", f.onlyTheAggregatorMayAskCoreAboutTokens},
		{"an issuer may be given to core by flags", f.issuersMayBeGivenByFlags},
		{"core names what a token depends on", f.coreNamesWhatATokenDependsOn},
		{"nothing is allowed by a binding that a service has seen deleted", f.nothingIsAllowedByADeletedBinding},
		{"services see a deleted binding without requests", f.deletedBindingsAreSeenWithoutRequests},
		{"a token ends everywhere with what keeps it good", f.tokensEndWithWhatKeepsThemGood},
		{"revocations are as late as the core that is followed", f.revocationsAreAsLateAsTheCoreThatIsFollowed},
		{"tokens go on when any core ends", f.tokensGoOnWhenAnyCoreEnds},
		{"custom resources go on without any core", f.customResourcesGoOnWithoutAnyCore},
	} {
		t.Run(test.name, test.run)
	}
}

// startFleet starts two replicas of each service. extensions-0 asks core-0 first; extensions-1 and aggregator-1 know no
// other core than core-1.
func startFleet(ctx context.Context) (*fleet, error) {
	f := &fleet{}
	var err error
	if f.etcd, err = environment.StartEtcd(ctx, environment.Dir); err != nil {
		return nil, err
	}
	if f.slow, err = newDelayProxy(f.etcd); err != nil {
		return nil, err
	}
	if err := writeFile("oidc-ca.crt", authorities.plain.ca()); err != nil {
		return nil, err
	}
	oidc := []string{
		"--oidc-issuer-url=" + authorities.plain.url(), "--oidc-ca-file=" + filepath.Join(environment.Dir, "oidc-ca.crt"),
		"--oidc-client-id=tripod-test", "--oidc-username-claim=nick", "--oidc-username-prefix=oidc:", "--oidc-groups-claim=groups",
		"--oidc-groups-prefix=oidc:", "--oidc-required-claim=tenant=t1", "--oidc-signing-algs=RS256",
	}
	// The etcd of core-1 becomes slow. That must not make core-1 unhealthy.
	tolerant := []string{"--etcd-healthcheck-timeout=30s", "--etcd-readycheck-timeout=30s"}
	grace := []string{fmt.Sprintf("--identity-grace=%s", identityGrace)}
	f.Fleet, err = environment.StartFleet(ctx, framework.FleetOptions{EtcdURL: f.etcd, Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: oidc},
		{Name: "core-1", Args: append(oidc, tolerant...), EtcdURL: f.slow.url()},
		{Name: "extensions-0"},
		{Name: "extensions-1", Cores: []string{"core-1"}},
		{Name: "aggregator-0", Args: grace},
		{Name: "aggregator-1", Args: grace, Cores: []string{"core-1"}},
	}})
	if err != nil {
		return nil, err
	}
	f.side = side{cluster: f.Fleet.Cluster}
	if err := f.prepare(ctx); err != nil {
		return nil, err
	}
	return f, f.cluster.Create(ctx, readingRole)
}

// named returns a user without rights.
func named(name string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
}

// promptly returns a client of the administrator that is not slowed down when core-1 is.
func (f *fleet) promptly(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(f.As("core-0", framework.Master))
	require.NoError(t, err)
	return client
}

// writeFile writes a file into the directory of the environment.
func writeFile(name, content string) error {
	return os.WriteFile(filepath.Join(environment.Dir, name), []byte(content), 0o600)
}
