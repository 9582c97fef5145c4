// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package streaming

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/admin/connect"
	"github.com/tripod-k8s/tripod/test/framework"
)

// installed is what the chart makes of the aggregators of a release, in a namespace of the cluster.
type installed struct {
	t         *testing.T
	cluster   *framework.Cluster
	client    kubernetes.Interface
	namespace string
}

const releaseName = "prod"

var labels = map[string]string{
	"app.kubernetes.io/part-of": "tripod", "app.kubernetes.io/component": "aggregator", "app.kubernetes.io/instance": releaseName,
}

func install(t *testing.T, cluster *framework.Cluster) *installed {
	t.Helper()
	i := &installed{t: t, cluster: cluster, client: kubeClient(t, cluster.Admin()), namespace: framework.CreateNamespace(t, cluster)}
	_, err := i.client.CoreV1().ServiceAccounts(i.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	none := int32(0)
	_, err = i.client.AppsV1().Deployments(i.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: releaseName + "-tripod-aggregator", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return i
}

// secret stores the kubeconfig of the cluster as that of the release.
func (i *installed) secret() {
	i.t.Helper()
	config, err := clientcmd.LoadFromFile(i.cluster.Kubeconfig)
	require.NoError(i.t, err)
	require.NoError(i.t, clientcmdapi.FlattenConfig(config))
	data, err := clientcmd.Write(*config)
	require.NoError(i.t, err)
	_, err = i.client.CoreV1().Secrets(i.namespace).Create(i.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: releaseName + "-tripod-kubeconfig"}, Data: map[string][]byte{"kubeconfig": data},
	}, metav1.CreateOptions{})
	require.NoError(i.t, err)
}

// aggregator makes a pod on a node of its own, in which a port of this machine is the API.
func (i *installed) aggregator(name string, port int) *framework.Kubelet {
	i.t.Helper()
	kubelet := framework.NewKubelet(func(err error) { i.t.Log("kubelet:", err) })
	i.t.Cleanup(kubelet.Close)
	node := framework.UniqueName("node")
	require.NoError(i.t, kubelet.AddNode(i.t.Context(), i.client, node))
	_, err := i.client.CoreV1().Pods(i.namespace).Create(i.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "aggregator", Image: "none", Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: int32(port)}},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(i.t, err)
	i.ready(name, true)
	return kubelet
}

// ready reports whether a pod is ready, as its kubelet would.
func (i *installed) ready(name string, ready bool) {
	i.t.Helper()
	pod, err := i.client.CoreV1().Pods(i.namespace).Get(i.t.Context(), name, metav1.GetOptions{})
	require.NoError(i.t, err)
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	_, err = i.client.CoreV1().Pods(i.namespace).UpdateStatus(i.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(i.t, err)
}

// open opens a tunnel, and returns the lines that it reports.
func (i *installed) open(config *rest.Config) (*connect.Tunnel, <-chan string, error) {
	i.t.Helper()
	client := kubeClient(i.t, config)
	release, err := connect.Find(i.t.Context(), client, i.namespace, releaseName)
	if err != nil {
		return nil, nil, err
	}
	output := make(chan string, 100)
	tunnel, err := connect.Open(i.t.Context(), release, connect.Options{Config: config, Client: client, Progress: func(line string) {
		i.t.Log(line)
		output <- line
	}})
	if err == nil {
		i.t.Cleanup(tunnel.Close)
	}
	return tunnel, output, err
}

// named serves a port of pods that sends its name, and then sends back what it gets.
func named(t testing.TB, name string) int {
	return listen(t, func(c *net.TCPConn) error {
		if _, err := fmt.Fprintln(c, name); err != nil {
			return nil //nolint:nilerr // the node went down
		}
		_, _ = io.Copy(c, c) // until the client or the node goes
		return nil
	})
}

// talk connects to a tunnel, and returns the name of what it reaches.
func talk(t testing.TB, tunnel *connect.Tunnel) (string, *net.TCPConn, *bufio.Reader) {
	t.Helper()
	connection, err := dial(strings.TrimPrefix(tunnel.Server(), "https://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	reader := bufio.NewReader(connection)
	name, err := reader.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(name), connection, reader
}

// until returns when a tunnel has reported a line with these words.
func until(t testing.TB, output <-chan string, words string) {
	t.Helper()
	for !strings.Contains(receive(t, words, output), words) {
	}
}

func TestATunnelFollowsTheAggregators(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		release := install(t, cluster)
		release.aggregator("a", named(t, "one"))
		nodeOfB := release.aggregator("b", named(t, "two"))
		tunnel, output, err := release.open(cluster.Admin())
		require.NoError(t, err)
		name, connection, reader := talk(t, tunnel)
		assert.Equal(t, "one", name)

		release.ready("a", false)
		until(t, output, "Connected through the pod b")
		name, second, _ := talk(t, tunnel)
		assert.Equal(t, "two", name, "new connections go to a ready pod")
		_, err = fmt.Fprintln(connection, "still there")
		require.NoError(t, err)
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "still there\n", line, "a pod that drains keeps its connections")

		release.ready("a", true)
		nodeOfB.CutOff()
		until(t, output, "The pod b has closed the connection")
		until(t, output, "Connected through the pod a")
		_, err = second.Read(make([]byte, 1))
		require.Error(t, err, "its node is gone")
		name, _, _ = talk(t, tunnel)
		assert.Equal(t, "one", name)

		release.ready("a", false)
		release.ready("b", false)
		until(t, output, "has no ready aggregator (2 pods are not ready)")
		waiting := make(chan string)
		go func() {
			name, _, _ := talk(t, tunnel)
			waiting <- name
		}()
		release.ready("b", true)
		assert.Equal(t, "two", receive(t, "a connection that waits for a pod", waiting))
		tunnel.Close()
		_, err = dial(strings.TrimPrefix(tunnel.Server(), "https://"))
		require.Error(t, err, "the port is closed")
	})
}

func TestATunnelSaysWhyItDoesNotOpen(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		release := install(t, cluster)
		_, _, err := release.open(cluster.Admin())
		require.ErrorContains(t, err, "the release prod has no ready aggregator (0 pods are not ready): kubectl -n "+release.namespace)
		release.aggregator("a", named(t, "one"))
		user := framework.UniqueName("user")
		config, err := cluster.UserConfig(user)
		require.NoError(t, err)
		_, _, err = release.open(config)
		require.ErrorContains(t, err, `cannot look for releases: deployments.apps is forbidden: User "`+user+`" cannot list`)
		release.grant(user, rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list"}})
		release.eventually(config, `pods is forbidden: User "`+user+`" cannot list`)
		release.grant(user, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}})
		release.eventually(config, "cannot forward a port of the pod a: ")
		release.eventually(config, `cannot create resource "pods/portforward"`)
		release.grant(user, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}})
		framework.Eventually(t, "the user may forward ports", func(context.Context) error {
			tunnel, _, err := release.open(config)
			if err == nil {
				name, _, _ := talk(t, tunnel)
				assert.Equal(t, "one", name)
			}
			return err
		})
	})
}

func (i *installed) eventually(config *rest.Config, problem string) {
	i.t.Helper()
	framework.Eventually(i.t, problem, func(context.Context) error {
		_, _, err := i.open(config)
		if err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "\n") {
			return errors.Join(errors.New("got"), err)
		}
		return nil
	})
}

func (i *installed) grant(user string, rule rbacv1.PolicyRule) {
	i.t.Helper()
	name := framework.UniqueName("role")
	_, err := i.client.RbacV1().Roles(i.namespace).Create(i.t.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	require.NoError(i.t, err)
	_, err = i.client.RbacV1().RoleBindings(i.namespace).Create(i.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(i.t, err)
}

// TestConnectRunsACommand goes through `tripod connect`, to the API of the cluster itself as that of the release.
func TestConnectRunsACommand(t *testing.T) {
	onEach(t, func(t *testing.T, cluster *framework.Cluster) {
		address, err := url.Parse(cluster.URL)
		require.NoError(t, err)
		port, err := strconv.Atoi(address.Port())
		require.NoError(t, err)
		release := install(t, cluster)
		release.aggregator("a", port)
		temporary := t.TempDir()
		tripod := environment.Binary("tripod")
		run := func(args ...string) (stdout, stderr string, code int) {
			ctx, cancel := limited(t)
			defer cancel()
			cmd := exec.CommandContext(ctx, tripod, append([]string{"connect", releaseName, "--kubeconfig", cluster.Kubeconfig, "-n", release.namespace}, args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "KUBECONFIG="+filepath.Join(temporary, "config"))
			var out, problems bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &problems
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			return out.String(), problems.String(), cmd.ProcessState.ExitCode()
		}
		_, problem, code := run("--", tripod, "version")
		assert.Equal(t, 1, code)
		assert.Contains(t, problem, "the release prod has no Secret prod-tripod-kubeconfig")

		release.secret()
		out, problem, code := run("--", tripod, "kubectl", "get", "pods", "-n", release.namespace, "-o", "name")
		assert.Equal(t, "pod/a\n", out)
		assert.Empty(t, problem)
		assert.Zero(t, code)
		out, _, code = run("--", "sh", "-c", `stat -c '%a' "$KUBECONFIG"; exit 7`)
		assert.Equal(t, "600\n", out)
		assert.Equal(t, 7, code)
		_, _, code = run("--", "sh", "-c", "kill -KILL $$")
		assert.Equal(t, 128+9, code)
		out, _, code = run("--merge-kubeconfig", "--", tripod, "kubectl", "config", "current-context")
		assert.Equal(t, "tripod_"+release.namespace+"_prod\n", out)
		assert.Zero(t, code)
		_, problem, _ = run("--port", address.Port(), "--", "true")
		assert.Contains(t, problem, "is in use: choose another with --port")
		_, problem, _ = run("--", "no-such-program")
		assert.Contains(t, problem, "no-such-program")
		left, err := filepath.Glob(filepath.Join(temporary, "tripod-connect-*"))
		require.NoError(t, err)
		assert.Empty(t, left, "the kubeconfigs are removed")
		config, err := os.ReadFile(filepath.Join(temporary, "config"))
		require.NoError(t, err)
		assert.NotContains(t, string(config), "tripod_", "the context is removed")
	})
}
