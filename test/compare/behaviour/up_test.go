// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

func TestASecondStartFindsTheDataOfTheFirst(t *testing.T) {
	needsEtcd(t, "it is no process of tripod up")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first := startTripod(t, framework.TripodOptions{DataDir: dir})
	world := newWorld(t, first)
	kubeconfig := first.Kubeconfig
	require.NoError(t, first.Stop())
	if code := exitCode(t, first.Process); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}

	port, err := strconv.Atoi(portOf(first.URL))
	require.NoError(t, err)
	second := startTripod(t, framework.TripodOptions{DataDir: dir, Port: port})
	world.tripod = second
	world.isComplete(t)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	info, err := whoAmI(t.Context(), config)
	if err != nil || !strings.Contains(strings.Join(info.Groups, " "), "system:masters") {
		t.Errorf("the kubeconfig of the first start: %v, %v", info, err)
	}
}

func TestNothingSurvivesTheDeathOfTripod(t *testing.T) {
	needsEtcd(t, "it is no process of tripod up")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first := startTripod(t, framework.TripodOptions{DataDir: dir})
	world := newWorld(t, first)
	components, err := first.Status(t.Context())
	require.NoError(t, err)
	assert.Len(t, components, 4+len(framework.Partitions()), "components")
	require.NoError(t, first.Process.Signal(syscall.SIGKILL))
	<-first.Process.Done()
	for _, component := range components {
		address := strings.TrimPrefix(strings.TrimPrefix(component.Address, "https://"), "http://")
		framework.Eventually(t, component.Component+" is gone", func(ctx context.Context) error {
			var dialer net.Dialer
			if connection, err := dialer.DialContext(ctx, "tcp", address); err == nil {
				closing(connection)
				return fmt.Errorf("%s still listens", address)
			}
			return nil
		})
	}
	world.tripod = startTripod(t, framework.TripodOptions{DataDir: dir})
	client := world.resources[1].of(t, world.tripod.Cluster, world.namespace)
	_, err = client.Get(t.Context(), world.names[0], metav1.GetOptions{})
	require.NoError(t, err)
}

func TestTripodThatCannotStartSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	both.NeedsTripod(t)
	env := framework.ForTest(t)
	file := filepath.Join(env.Dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	broken := filepath.Join(env.Dir, "broken")
	require.NoError(t, os.MkdirAll(filepath.Join(broken, "pki"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "pki", "ca.crt"), []byte("hello"), 0o600))
	shared := filepath.Join(env.Dir, "shared")
	require.NoError(t, os.MkdirAll(filepath.Join(shared, "pki"), 0o700))
	require.NoError(t, os.Chmod(shared, 0o770))
	linked := filepath.Join(env.Dir, "linked")
	require.NoError(t, os.Mkdir(linked, 0o700))
	require.NoError(t, os.Symlink(file, filepath.Join(linked, "lock")))
	free, err := framework.FreePort()
	require.NoError(t, err)
	freePort := strconv.Itoa(free)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"data directory in use", []string{"--data-dir", cluster.DataDir}, cluster.DataDir},
		{"data directory is a file", []string{"--data-dir", file}, file},
		{"data directory in which others may write", []string{"--data-dir", shared}, "others may write to directory " + shared},
		{"link in the data directory", []string{"--data-dir", linked}, filepath.Join(linked, "lock")},
		{"broken certificate", []string{"--data-dir", broken}, filepath.Join(broken, "pki", "ca.crt")},
		{"busy port", []string{"--port", portOf(cluster.URL)}, portOf(cluster.URL)},
		{"port that is none", []string{"--port", "70000"}, "70000"},
		{"unreachable etcd", []string{"--etcd-servers", "http://127.0.0.1:" + freePort}, freePort},
		{"unreachable etcd of a service", []string{"--extensions-etcd-servers", "http://127.0.0.1:" + freePort}, "extensions"},
		{"unknown flag", []string{"--nope"}, "--nope"},
		{"unknown flag of a service", []string{"--core-arg=--nope"}, "--nope"},
		{"argument", []string{"please"}, "please"},
	} {
		t.Run(test.name, func(t *testing.T) {
			process, err := env.Start(framework.Command{
				Name: "tripod", Path: env.Binary("tripod"),
				Args: append([]string{"up", "--data-dir", filepath.Join(t.TempDir(), "data"), "--port", freePort}, test.args...),
			})
			require.NoError(t, err)
			code := exitCode(t, process)
			log, err := os.ReadFile(process.Log)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(log)), "\n")
			if last := lines[len(lines)-1]; code == 0 || !strings.HasPrefix(last, "Error: ") || !strings.Contains(last, test.want) {
				t.Errorf("exit code %d: %s", code, log)
			}
			assert.Equal(t, 1, strings.Count(string(log), "Error: "), "the log has the error more than once: %s", log)
		})
	}
}

func TestCustomResourcesMayHaveAnEtcdOfTheirOwn(t *testing.T) {
	t.Parallel()
	env := framework.ForTest(t)
	shared, err := env.StartEtcd(t.Context(), filepath.Join(env.Dir, "shared"))
	require.NoError(t, err)
	own, err := env.StartEtcd(t.Context(), filepath.Join(env.Dir, "own"))
	require.NoError(t, err)
	world := newWorld(t, startTripod(t, framework.TripodOptions{Args: []string{"--etcd-servers=" + shared, "--extensions-etcd-servers=" + own}}))
	group := world.resources[1].Group
	for _, test := range []struct {
		prefix          string
		inShared, inOwn bool
	}{
		{"/registry/configmaps/" + world.namespace, true, false},
		{"/registry/" + group + "/widgets/" + world.namespace, false, true},
		{"/registry/apiextensions.k8s.io/customresourcedefinitions/widgets." + group, false, true},
		{"/registry/apiregistration.k8s.io/apiservices/", true, false},
	} {
		assert.Equal(t, test.inShared, hasKeys(t, shared, test.prefix), "the etcd of core has %s", test.prefix)
		assert.Equal(t, test.inOwn, hasKeys(t, own, test.prefix), "the etcd of extensions has %s", test.prefix)
	}
}

func hasKeys(t testing.TB, etcd, prefix string) bool {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	require.NoError(t, err)
	defer closing(client)
	resp, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return resp.Count > 0
}
