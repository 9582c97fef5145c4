// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/tripod-k8s/tripod/e2e/kindcluster"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// hidesItsKubelet has the node refuse connections to its kubelet from other machines, such as those of core.
func hidesItsKubelet(t *testing.T, node *kindcluster.Cluster) {
	address, err := addressOf(t.Context(), client)
	require.NoError(t, err)
	connect := func(ctx context.Context) error {
		_, err := env.Cluster.Exec(ctx, nil, "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/10250", address))
		return err
	}
	framework.Eventually(t, "the kubelet listens", connect)
	_, err = node.Exec(t.Context(), nil, "iptables", "-I", "INPUT", "-i", "eth0", "-p", "tcp", "--dport", "10250", "-j", "REJECT", "--reject-with", "tcp-reset")
	require.NoError(t, err)
	require.Error(t, connect(t.Context()), "the kubelet is still reachable, so nothing below needs konnectivity")
}

// hasTunnels waits until the agent of the node has a connection to every server.
func hasTunnels(t *testing.T, _ *kindcluster.Cluster) {
	const namespace = "konnectivity"
	kubectl(t, "", "--namespace="+namespace, "rollout", "status", "--timeout=3m", "daemonset/konnectivity-agent")
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "k8s-app=konnectivity-agent"})
	require.NoError(t, err)
	require.Len(t, pods.Items, 1)
	var servers int
	for _, service := range release.Services {
		replicas, err := tripod.Pods(t.Context(), service)
		require.NoError(t, err)
		servers += len(replicas)
	}
	require.Equal(t, 4, servers, "two of core, one of the other services")
	framework.Eventually(t, "the agent has a connection to every server", func(ctx context.Context) error {
		// This request is answered by the pod, through a tunnel.
		metrics, err := client.CoreV1().Pods(namespace).ProxyGet("http", pods.Items[0].Name, "8093", "metrics", nil).DoRaw(ctx)
		if err != nil {
			return err
		}
		open, err := framework.SumMetric(bytes.NewReader(metrics), "konnectivity_network_proxy_agent_open_server_connections")
		if err == nil && int(open) != servers {
			err = fmt.Errorf("it has %v of %d", open, servers)
		}
		return err
	})
}

// judge is a pod behind a Service. It is a webhook and an API server.
const judge = `
apiVersion: v1
kind: Secret
metadata: {name: judge}
data: {tls.crt: CERT, tls.key: KEY}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: judge}
spec:
  selector: {matchLabels: {app: judge}}
  template:
    metadata: {labels: {app: judge}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: judge
        image: "` + workloadImage + `"
        args: [judge]
        readinessProbe: {httpGet: {port: 8080, scheme: HTTPS}, periodSeconds: 1}
        volumeMounts: [{name: certificate, mountPath: /var/run/secrets/serving}]
      volumes: [{name: certificate, secret: {secretName: judge}}]
---
apiVersion: v1
kind: Service
metadata: {name: judge}
spec: {selector: {app: judge}, ports: [{port: 443, targetPort: 8080}]}
`

// judged has core and extensions ask the pod about objects that have a label, and the aggregator send it requests.
const judged = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: judge}
webhooks:
- name: judge.example.com
  clientConfig: {service: {namespace: default, name: judge}, caBundle: CERT}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [CREATE]}]
  objectSelector: {matchLabels: {judged: "true"}}
  admissionReviewVersions: [v1]
  sideEffects: None
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.judge.example.com}
spec:
  service: {namespace: default, name: judge}
  caBundle: CERT
  group: judge.example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
`

// runsServersOfTheAPI has each service connect to a pod: core and extensions to a webhook, the aggregator to an aggregated API server.
func runsServersOfTheAPI(t *testing.T, _ *kindcluster.Cluster) {
	bundle, key, err := cert.GenerateSelfSignedCertKey("judge.default.svc", nil, nil)
	require.NoError(t, err)
	filled := strings.NewReplacer("CERT", base64.StdEncoding.EncodeToString(bundle), "KEY", base64.StdEncoding.EncodeToString(key))
	kubectl(t, filled.Replace(judge), "apply", "-f", "-")
	kubectl(t, "", "rollout", "status", "--timeout=3m", "deployment/judge")
	customs := release.Customs(1)
	require.NoError(t, tripod.Define(t.Context(), customs))
	kubectl(t, filled.Replace(judged), "apply", "-f", "-")
	for _, object := range []string{
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: forbidden, labels: {judged: \"true\"}}}",
		fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: forbidden, labels: {judged: \"true\"}}}", customs[0].Version, customs[0].Kind),
	} {
		framework.Eventually(t, "the webhook answers", func(ctx context.Context) error {
			out, err := tripod.Kubectl(ctx, object, "create", "--dry-run=server", "-f", "-")
			if err == nil {
				return fmt.Errorf("nobody asks the webhook: %s", out)
			}
			if !strings.Contains(err.Error(), "forbidden by judge-") {
				return err
			}
			return nil
		})
	}
	kubectl(t, "", "wait", "--for=condition=Available", "--timeout=90s", "apiservice/v1.judge.example.com")
	assert.Contains(t, kubectl(t, "", "get", "--raw", "/apis/judge.example.com/v1/anything"), "judge-")
	kubectl(t, "", "delete", "apiservice/v1.judge.example.com", "validatingwebhookconfiguration/judge", "deployment/judge", "service/judge")
}
