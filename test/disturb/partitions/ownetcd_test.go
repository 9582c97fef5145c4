// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package partitions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/test/framework"
)

// etcd is an etcd that is started again at the same address, with the same data.
type etcd struct {
	environment *framework.Environment
	url         string
	command     framework.Command
	process     *framework.Process
	*clientv3.Client
}

func startEtcd(t *testing.T) *etcd {
	t.Helper()
	environment, dir := framework.ForTest(t), t.TempDir()
	ports := make([]string, 2)
	for i := range ports {
		port, err := framework.FreePort()
		require.NoError(t, err)
		ports[i] = fmt.Sprintf("http://127.0.0.1:%d", port)
	}
	client, peer := ports[0], ports[1]
	e := &etcd{environment: environment, url: client, command: framework.Command{
		Name: "own-etcd", Path: environment.Binary("test-assets/etcd"), Dir: dir,
		Args: []string{
			"--data-dir=" + filepath.Join(dir, "etcd"), "--log-level=warn", "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		},
	}}
	e.start(t)
	e.Client = framework.Etcd(t, client)
	return e
}

func (e *etcd) start(t *testing.T) {
	t.Helper()
	var err error
	e.process, err = e.environment.Start(e.command)
	require.NoError(t, err)
	e.command.Name += "-again"
	framework.Eventually(t, "etcd is healthy", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/health", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	})
}

func (e *etcd) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, e.process.Signal(syscall.SIGKILL))
	<-e.process.Done()
}

// fill has etcd answer writes as if its disk were full, and free makes an end of that.
func (e *etcd) fill(t *testing.T) (free func()) {
	t.Helper()
	maintenance := pb.NewMaintenanceClient(e.ActiveConnection())
	set := func(action pb.AlarmRequest_AlarmAction) {
		_, err := maintenance.Alarm(t.Context(), &pb.AlarmRequest{Action: action, Alarm: pb.AlarmType_NOSPACE})
		require.NoError(t, err)
	}
	set(pb.AlarmRequest_ACTIVATE)
	return func() { set(pb.AlarmRequest_DEACTIVATE) }
}

// keys returns how many objects of a group an etcd has.
func keys(t *testing.T, client *clientv3.Client, group string) int {
	t.Helper()
	answer, err := client.Get(t.Context(), "/registry/"+group+"/boats/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return int(answer.Count)
}

func startWith(t *testing.T, options framework.TripodOptions) *instance {
	t.Helper()
	tripod, err := framework.ForTest(t).StartTripod(t.Context(), options)
	require.NoError(t, err)
	definitions, err := apiextensions.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	return &instance{tripod, definitions, objects}
}

// shared returns a client of the embedded etcd, and the files for it.
func (i *instance) shared(t *testing.T) (client *clientv3.Client, server, ca, cert, key string) {
	t.Helper()
	status, err := i.Component(t.Context(), "etcd")
	require.NoError(t, err)
	ca = filepath.Join(i.PKI, "etcd-ca.crt")
	cert, key = filepath.Join(i.PKI, "apiserver-etcd-client.crt"), filepath.Join(i.PKI, "apiserver-etcd-client.key")
	client, err = access.Connect([]string{status.Address}, ca, cert, key)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client, status.Address, ca, cert, key
}

// create creates a boat, without the retries of client-go, and returns the status.
func (i *instance) create(t *testing.T, group, name string) int {
	t.Helper()
	client, err := rest.HTTPClientFor(i.Admin())
	require.NoError(t, err)
	body, err := boat(group, name).MarshalJSON()
	require.NoError(t, err)
	url := i.Admin().Host + "/apis/" + group + "/v1/namespaces/" + namespace + "/boats"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestAPartitionFailsAloneWithItsEtcd(t *testing.T) {
	t.Parallel()
	own := startEtcd(t)
	arguments := []string{"--extensions-partition=wide=*.wide.example.com", "--extensions-partition=exact=exact.example.org"}
	options := framework.TripodOptions{Args: append(arguments, "--extensions-partition-etcd-servers=wide="+own.url), DataDir: t.TempDir()}
	i := startWith(t, options)
	boats := map[string]dynamic.ResourceInterface{}
	for partition, group := range groups {
		boats[partition] = i.define(t, framework.CRD{Kind: "Boat", Group: group})
		_, err := boats[partition].Create(t.Context(), boat(group, "a"), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	shared, _, _, _, _ := i.shared(t)
	for partition, group := range groups {
		want := map[bool][2]int{true: {1, 0}, false: {0, 1}}[partition == wide]
		assert.Equal(t, want, [2]int{keys(t, own.Client, group), keys(t, shared, group)}, "objects of %s in its own etcd, and in the shared one", partition)
	}
	others := func(t *testing.T) {
		for partition, group := range groups {
			if partition == wide {
				continue
			}
			_, err := boats[partition].Get(t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
			created := boat(group, "")
			created.SetGenerateName("b-")
			_, err = boats[partition].Create(t.Context(), created, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		require.NoError(t, i.WaitReady(t.Context()))
	}
	works := func(t *testing.T) {
		framework.Eventually(t, "the partition works", func(ctx context.Context) error {
			created := boat(groups[wide], "")
			created.SetGenerateName("b-")
			_, err := boats[wide].Create(ctx, created, metav1.CreateOptions{})
			return err
		})
		_, err := boats[wide].Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
	}

	t.Run("full", func(t *testing.T) {
		free := own.fill(t)
		_, err := boats[wide].Create(t.Context(), boat(groups[wide], "full"), metav1.CreateOptions{})
		assert.ErrorContains(t, err, "database space exceeded")
		_, err = boats[wide].Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err, "reads go on")
		others(t)
		free()
		works(t)
	})
	t.Run("away", func(t *testing.T) {
		own.kill(t)
		assert.Equal(t, http.StatusServiceUnavailable, i.create(t, groups[wide], "away"))
		others(t)
		own.start(t)
		works(t)
	})
	t.Run("away at the start", func(t *testing.T) {
		own.kill(t)
		require.NoError(t, i.Kill(t.Context(), wide))
		framework.Eventually(t, "requests are 503 because of etcd", func(context.Context) error {
			_, err := i.get(t, "/apis/"+groups[wide]+"/v1/namespaces/"+namespace+"/boats/a")
			if err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "its etcd does not answer") {
				return fmt.Errorf("not 503: %w", err)
			}
			return nil
		})
		others(t)
		own.start(t)
		works(t)
	})
	t.Run("without its etcd the group is refused", func(t *testing.T) {
		require.NoError(t, i.Stop())
		_, err := framework.ForTest(t).StartTripod(t.Context(), framework.TripodOptions{Args: arguments, DataDir: options.DataDir})
		require.ErrorContains(t, err, "extensions-wide cannot serve the API group team.wide.example.com: its objects are in an etcd of their own")
		i = startWith(t, options)
		boats[wide] = i.objects.Resource(schema.GroupVersionResource{Group: groups[wide], Version: "v1", Resource: "boats"}).Namespace(namespace)
		works(t)
	})
}
