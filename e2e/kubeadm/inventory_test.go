// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/discovery"

	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

// restless are objects that come and go: kubeadm makes a Job before an upgrade, and Secrets for tokens, and the kubelet makes mirror pods.
var restless = regexp.MustCompile("Resource=((events|leases|certificatesigningrequests) |(pods|jobs|secrets) kube-system/)")

type kept inventory.Shown

// takeInventory returns everything that the API shows.
func takeInventory(t *testing.T) kept {
	t.Helper()
	var all inventory.Shown
	eventually(t, "the API shows everything", func(ctx context.Context) error {
		preferred, err := discovery.ServerPreferredResources(env.Cluster.Client.Discovery())
		if err == nil {
			all, err = inventory.ReadAPI(ctx, env.Cluster.Config(), preferred)
		}
		return err
	})
	return kept(all)
}

// compare checks that no object is gone, replaced, or went back.
func (before kept) compare(t *testing.T, after kept) {
	t.Helper()
	compared := 0
	for name, was := range before {
		if restless.MatchString(name) {
			continue
		}
		compared++
		is := after[name]
		if is.GetUID() != was.GetUID() {
			t.Errorf("%s has the UID %q, want %q", name, is.GetUID(), was.GetUID())
		} else if order, err := resourceversion.CompareResourceVersion(is.GetResourceVersion(), was.GetResourceVersion()); err != nil || order < 0 {
			t.Errorf("%s went back from resourceVersion %s to %s", name, was.GetResourceVersion(), is.GetResourceVersion())
		}
	}
	require.NotZero(t, compared)
	t.Logf("%d of %d objects were compared", compared, len(before))
}
