// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/e2e/controlplane"
	"github.com/tripod-k8s/tripod/e2e/counter"
	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/kindcluster"
)

// subject is the cluster whose kube-apiserver the tests replace.
type subject struct {
	*kindcluster.Cluster
	dynamic dynamic.Interface
}

// keepsake has objects that the test creates while Tripod is the API server, and that must stay.
const keepsake = `
apiVersion: v1
kind: ConfigMap
metadata: {name: keepsake, namespace: takeover}
data: {made: by Tripod}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: keepsake, namespace: takeover}
spec:
  selector: {matchLabels: {app: keepsake}}
  template:
    metadata: {labels: {app: keepsake}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: keepsake, image: "IMAGE", args: [serve], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: keepsake, namespace: takeover}
spec: {type: NodePort, selector: {app: keepsake}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keepsake}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: example.com/v1
kind: Boat
metadata: {name: keepsake, namespace: takeover}
spec: {length: 7}
`

func TestTripodTakesThePlaceOfKubeAPIServerAndGivesItBack(t *testing.T) {
	s := newSubject(t)
	s.create(t, live)
	s.waitForDeployment(t, namespace, "server", 2)
	s.waitForPod(t, "client-0")
	s.waitForData(t)
	data := s.dataPath(t)
	stock, err := controlplane.Read(t.Context(), s.Cluster, controlplane.APIServer)
	require.NoError(t, err)
	before, err := s.Client.Discovery().ServerVersion()
	require.NoError(t, err)
	// With the emulated version, Tripod writes what this version of kube-apiserver would write.
	emulated := version.MustParseSemantic(before.GitVersion)
	ours, err := controlplane.WithImage(stock, s.image(t), fmt.Sprintf("--emulated-version=%d.%d", emulated.Major(), emulated.Minor()))
	require.NoError(t, err)
	found := s.takeInventory(t)
	count := counter.Start(t, s.Client, namespace)

	s.exchange(t, ours)
	s.check(t, "ours")
	s.create(t, keepsake)
	s.waitForDeployment(t, namespace, "keepsake", 1)
	count.End(t)
	left := s.takeInventory(t)
	compare(t, found, left, "keepsake", "/registry/ipaddresses/")
	count = counter.Start(t, s.Client, namespace)

	s.exchangeForServices(t, ours)
	s.check(t, "services")

	s.exchange(t, stock)
	s.check(t, "stock")
	count.End(t)
	compare(t, left, s.takeInventory(t))
	if now := s.dataPath(t); now.Failures > data.Failures || now.Requests == data.Requests {
		t.Errorf("of %d requests from pod to pod, %d failed; the last error is: %s", now.Requests-data.Requests, now.Failures-data.Failures, now.LastError)
	}
}

// env is the cluster of these tests.
var env *environment.Environment

func TestMain(m *testing.M) {
	environment.Main(m, "-takeover", func(_ context.Context, e *environment.Environment) error {
		env = e
		archive, err := imagearchive.Build(e.Dir, workloadImage, "github.com/tripod-k8s/tripod/e2e/workload")
		if err == nil {
			_, err = e.Cluster.Load(archive)
		}
		return err
	}, func(e *environment.Environment) error { return e.Collect() })
}

func newSubject(t *testing.T) *subject {
	t.Helper()
	s := &subject{Cluster: env.Cluster}
	var err error
	if s.dynamic, err = dynamic.NewForConfig(s.Config()); err != nil {
		t.Fatal(err)
	}
	return s
}

// image returns the name of Tripod's image on the node.
func (s *subject) image(t *testing.T) string {
	t.Helper()
	name, tag, err := s.Image(t.Context(), "tripod-k8s/tripod")
	require.NoError(t, err)
	return name + ":" + tag
}

// onNode runs a program on the node and returns its output.
func (s *subject) onNode(t *testing.T, stdin io.Reader, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := s.Exec(ctx, stdin, program, args...)
	require.NoError(t, err)
	return out
}
