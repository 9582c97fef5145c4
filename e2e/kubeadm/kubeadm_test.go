// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/e2e/counter"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/inventory"
)

// The image of kube-apiserver, and the prefix of the tags of Tripod's.
const (
	stockRepository = "registry.k8s.io/kube-apiserver:"
	repository      = "localhost/tripod-k8s/tripod:"
)

func TestKubeadm(t *testing.T) {
	build, err := tagOf("images")
	require.NoError(t, err)
	next, err := tagOf("next/images")
	require.NoError(t, err)
	require.NotEqual(t, build, next, "both builds have one version")
	stage := func(name string, test func(*testing.T)) {
		if !t.Run(name, test) {
			t.FailNow() // each stage needs the one before
		}
	}
	stage("init", func(t *testing.T) { testInit(t, build) })
	stage("join", testJoin)
	stage("users and tokens", testUsers)
	createObjects(t)
	kept := takeInventory(t)
	count := counter.Start(t, env.Cluster.Client, inventory.Namespace)
	stage("renew", testRenewal)
	stage("join a control plane", func(t *testing.T) { testJoinControlPlane(t, build) })
	stage("upgrade", func(t *testing.T) { testUpgrade(t, build, next) })
	stage("back to kube-apiserver", testBack)
	stage("take over", func(t *testing.T) { testTakeover(t, next) })
	count.End(t)
	kept.compare(t, takeInventory(t))
}

// tagOf returns the tag of the images in a directory of bin.
func tagOf(dir string) (string, error) {
	tag, err := os.ReadFile(binaries + dir + "/tag")
	return strings.TrimSpace(string(tag)), err
}

// createObjects creates objects of many kinds, which the rest of the test must keep.
func createObjects(t *testing.T) {
	t.Helper()
	client, err := dynamic.NewForConfig(env.Cluster.Config())
	require.NoError(t, err)
	objects, err := framework.Decode(strings.ReplaceAll(inventory.Objects, "IMAGE", workloadImage))
	require.NoError(t, err)
	for _, object := range objects {
		// The resource of a new CustomResourceDefinition is not there at once.
		eventually(t, fmt.Sprintf("create %s %s", object.GetKind(), object.GetName()), func(ctx context.Context) error {
			return framework.CreateObject(ctx, client, object)
		})
	}
}

// expectTripod checks which build of Tripod is the API server of a machine. It asks the program, because an image can have any tag.
func (m machine) expectTripod(t *testing.T, tag string) {
	t.Helper()
	m.waitForAPIServer(t, imageOf(tag))
	want := "Tripod " + tag + "\nKubernetes " + kubernetes + "\n"
	eventually(t, string(m)+" has Tripod "+tag, func(ctx context.Context) error {
		got, err := first.exec(ctx, nil, "kubectl", "--kubeconfig="+adminConfig, "-n", "kube-system", "exec", "kube-apiserver-"+string(m), "--", "tripod", "version")
		if err == nil && got != want {
			err = fmt.Errorf("it says %q", got)
		}
		return err
	})
}

// imageOf returns the name that docs/kubeadm.md gives the image of a build: kubeadm reads the version of Kubernetes from the tag.
func imageOf(build string) string { return repository + kubernetes + "_" + build }

func testUpgrade(t *testing.T, build, next string) {
	first.patch(t, imageOf(next))
	plan := first.run(t, "kubeadm", "upgrade", "plan", kubernetes, ignored)
	assert.Contains(t, plan, "Cluster version: "+strings.TrimPrefix(kubernetes, "v")+"+"+build)
	first.upgrade(t, "apply", kubernetes, "--yes", "--patches="+patchDir)
	first.expectTripod(t, next)

	second.patch(t, imageOf(next))
	second.upgrade(t, "node", "--patches="+patchDir)
	second.expectTripod(t, next)
	worker.upgrade(t, "node")
	checkCluster(t)
	checkPod(t)
}

// testBack leaves out the patches, so that kubeadm writes the manifest that it always writes.
func testBack(t *testing.T) {
	first.upgrade(t, "apply", kubernetes, "--yes")
	second.upgrade(t, "node")
	for _, m := range []machine{first, second} {
		m.waitForAPIServer(t, stockRepository+kubernetes)
	}
	checkCluster(t)
	checkPod(t)
}

// testTakeover has Tripod take the place of kube-apiserver on one of two machines. etcd goes on: kube-apiserver can need longer to find it again than
// kubeadm waits.
func testTakeover(t *testing.T, build string) {
	first.upgrade(t, "apply", kubernetes, "--yes", "--patches="+patchDir, "--etcd-upgrade=false")
	first.expectTripod(t, build)
	second.waitForAPIServer(t, stockRepository+kubernetes)
	checkCluster(t)
	checkPod(t)
}
