// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
	"github.com/tripod-k8s/tripod/test/framework/usage"
)

func TestMain(m *testing.M) {
	framework.Main(m, func(context.Context, *framework.Environment) error { return nil })
}

// older returns the folder with the programs of an older version, and its version of Kubernetes.
func older(t *testing.T) (binaries, kubernetes string) {
	t.Helper()
	binaries, kubernetes = os.Getenv("TEST_OLDER_BINARIES"), os.Getenv("TEST_OLDER_KUBE")
	if binaries == "" || kubernetes == "" {
		t.Skip("TEST_OLDER_BINARIES and TEST_OLDER_KUBE name no older version: make test-upgrade does")
	}
	return binaries, kubernetes
}

// orders are those in which services are replaced, in turns: to the newer version, back, and so on. In some step, each service is newer than each
// other one, and older.
var orders = [][]string{
	{"core", "extensions", "wardle", "aggregator"},
	{"core", "extensions", "wardle", "aggregator"},
	{"aggregator", "wardle", "extensions", "core"},
}

// TestServicesAreReplacedOneAtATime runs `tripod up` on one data directory.
func TestServicesAreReplacedOneAtATime(t *testing.T) {
	older, emulated := older(t)
	env := framework.ForTest(t)
	newer := filepath.Dir(env.Binary("tripod"))
	installed, err := newPrograms(t.TempDir(), older)
	require.NoError(t, err)
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{Binary: installed.path("tripod"), Args: []string{
		"--lb", "--core-replicas=2", "--extensions-replicas=2", "--aggregator-replicas=2",
		"--service=wardle=" + installed.path("wardle"),
		"--emulated-version=" + emulated,
		// The balancer asks every two seconds who is ready.
		"--aggregator-arg=--shutdown-delay-duration=5s",
	}})
	require.NoError(t, err)
	require.NoError(t, tripod.Scale(t.Context(), "wardle", 2))
	require.NoError(t, tripod.WaitReady(t.Context()))
	require.NoError(t, tripod.Create(t.Context(), traffic.Definitions(traffic.Customs[:2])))
	c := usage.Start(t, usage.Options{Config: tripod.Admin()})
	load := traffic.Start(t, traffic.Options{Customs: traffic.Customs[:2], Rate: 60, Workers: 20, Watchers: 60}, tripod.Admin())
	for i, order := range orders {
		from := older
		if i%2 == 0 {
			from = newer
		}
		for _, service := range order {
			require.NoError(t, installed.install(from, programOf(service)))
			for _, replica := range []string{service + "-0", service + "-1"} {
				began := time.Now()
				require.NoError(t, tripod.Restart(t.Context(), replica))
				t.Logf("%s was back after %.1f s", replica, time.Since(began).Seconds())
			}
			load.Progress(t, 200)
			versions(t, tripod, service, from == newer, emulated)
			usage.ExpectHealthy(t, tripod.Admin())
		}
	}
	c.Stop()
	load.Finish(t)
	load.FailsNever(t)
	load.WatchesAreWell(t, false)
	load.SawAll(t)
	for _, failure := range c.Failures() {
		t.Error(failure)
	}
	t.Log(c)
	require.NoError(t, tripod.Stop())
}

func programOf(service string) string {
	if service == "wardle" {
		return service
	}
	return "tripod-" + service
}

// versions expects that `tripod status` shows each replica of a service as ready and of the version that has just been installed.
func versions(t *testing.T, tripod *framework.Tripod, service string, isNewer bool, older string) {
	t.Helper()
	all, err := tripod.Replicas(t.Context(), service)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, replica := range all {
		assert.True(t, replica.Ready, replica.Replica)
		assert.Equal(t, !isNewer, strings.HasPrefix(replica.Version, "v"+older+"."), "%s is %s", replica.Replica, replica.Version)
	}
}

// TestNoOtherVersionJoinsWithoutEmulation replaces the program of core, as an upgrade that forgot to emulate does.
func TestNoOtherVersionJoinsWithoutEmulation(t *testing.T) {
	older, emulated := older(t)
	env := framework.ForTest(t)
	installed, err := newPrograms(t.TempDir(), older)
	require.NoError(t, err)
	options := framework.TripodOptions{Binary: installed.path("tripod"), Args: []string{"--core-replicas=2"}, DataDir: filepath.Join(t.TempDir(), "data")}
	tripod, err := env.StartTripod(t.Context(), options)
	require.NoError(t, err)
	namespace := framework.CreateNamespace(t, tripod.Cluster)

	require.NoError(t, installed.install(filepath.Dir(env.Binary("tripod")), "tripod-core"))
	require.NoError(t, tripod.Kill(t.Context(), "core-0"))
	refusal := "is of " + emulated + ": start tripod with --emulated-version=" + emulated + " until all programs are replaced"
	framework.Eventually(t, "core-0 says why it does not start", func(ctx context.Context) error {
		core, err := tripod.Component(ctx, "core-0")
		if err == nil && !strings.Contains(core.Message, refusal) {
			err = fmt.Errorf("it says %q", core.Message)
		}
		return err
	})
	core, err := tripod.Component(t.Context(), "core-0")
	require.NoError(t, err)
	assert.NotContains(t, core.Message, "\n")
	write(t, tripod, namespace, "by-the-other-replica")
	require.NoError(t, tripod.Stop())

	etcd := filepath.Join(options.DataDir, "etcd", "member", "snap", "db")
	before := digest(t, etcd)
	_, err = env.StartTripod(t.Context(), options)
	require.ErrorContains(t, err, refusal)
	assert.Equal(t, before, digest(t, etcd), "a start that is refused changes nothing")
}

// TestTheDataDirectoryGoesToTheNewerVersionAndBack restarts `tripod up`, with its etcd, in another version.
func TestTheDataDirectoryGoesToTheNewerVersionAndBack(t *testing.T) {
	older, emulated := older(t)
	env := framework.ForTest(t)
	newer := env.Binary("tripod")
	data := filepath.Join(t.TempDir(), "data")
	up := func(binary string, args ...string) (*framework.Tripod, error) {
		args = append(args, "--runtime-config=api/all=true")
		return env.StartTripod(t.Context(), framework.TripodOptions{Binary: binary, DataDir: data, Args: args})
	}
	old, emulating := filepath.Join(older, "tripod"), "--emulated-version="+emulated

	tripod, err := up(old)
	require.NoError(t, err)
	namespace := framework.CreateNamespace(t, tripod.Cluster)
	write(t, tripod, namespace, "by-the-older")
	require.NoError(t, tripod.Stop())

	tripod, err = up(newer, emulating)
	require.NoError(t, err)
	write(t, tripod, namespace, "by-the-newer")
	stored := store(t, tripod, namespace)
	require.NoError(t, tripod.Stop())

	etcd := filepath.Join(data, "etcd", "member", "snap", "db")
	before := digest(t, etcd)
	_, err = up(old)
	refuses(t, err, `cannot use the data of a newer etcd in .*: start the newer version again, and have it run .tripod etcd downgrade. first`)
	assert.Equal(t, before, digest(t, etcd), "what etcd refuses stays as it is")

	tripod, err = up(newer, emulating)
	require.NoError(t, err)
	server, err := tripod.Component(t.Context(), "etcd")
	require.NoError(t, err)
	pki := func(name string) string { return filepath.Join(tripod.PKI, name) }
	output, err := exec.CommandContext(t.Context(), newer, "etcd", "downgrade", "--endpoints", server.Address, "--cacert", pki("etcd-ca.crt"),
		"--cert", pki("apiserver-etcd-client.crt"), "--key", pki("apiserver-etcd-client.key"), "--to", minorBefore(t, server.Version)).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, tripod.Stop())

	tripod, err = up(old)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"by-the-older", "by-the-newer", "secret1"}, read(t, tripod, namespace))
	stored.expect(t, tripod)
	require.NoError(t, tripod.Stop())

	tripod, err = up(newer)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"by-the-older", "by-the-newer", "secret1"}, read(t, tripod, namespace))
	require.NoError(t, tripod.Stop())

	_, err = up(old)
	refuses(t, err, "has objects in the form of Kubernetes")
}

// refuses expects that the older version refused to start with a line that matches. The last release has lines of its own.
func refuses(t *testing.T, err error, line string) {
	t.Helper()
	require.ErrorContains(t, err, "cannot start")
	if os.Getenv("TEST_OLDER_RELEASED") != "1" {
		require.Regexp(t, "(?m)^.*"+line+".*$", err.Error())
	}
}

// digest returns what is in the database of an etcd: all buckets, keys and values. The file itself may differ, because an etcd that refuses it
// commits an empty transaction if that takes it more than 100 ms.
func digest(t *testing.T, path string) string {
	t.Helper()
	status, err := snapshot.NewV3(zap.NewNop()).Status(path)
	require.NoError(t, err)
	require.NotZero(t, status.TotalKey)
	return fmt.Sprintf("%x: %d keys, revision %d, version %s", status.Hash, status.TotalKey, status.Revision, status.Version)
}

// minorBefore returns the minor version before that of an etcd.
func minorBefore(t *testing.T, server string) string {
	t.Helper()
	v, err := version.ParseSemantic(server)
	require.NoError(t, err)
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor()-1)
}

// minorOf returns the minor version of an etcd.
func minorOf(t *testing.T, server string) string {
	t.Helper()
	v, err := version.ParseSemantic(server)
	require.NoError(t, err)
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}

func write(t *testing.T, tripod *framework.Tripod, namespace, name string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	_, err = client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func read(t *testing.T, tripod *framework.Tripod, namespace string) (all []string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(tripod.Admin())
	require.NoError(t, err)
	secrets, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, secret := range secrets.Items {
		all = append(all, secret.Name)
	}
	return all
}
