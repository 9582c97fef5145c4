// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
	"github.com/tripod-k8s/tripod/test/framework/usage"
)

// member is one of three members of an etcd.
type member struct {
	name, url, peer, dir string
	process              *framework.Process
}

// newMembers returns three members that do not run yet.
func newMembers(t *testing.T) []*member {
	t.Helper()
	var all []*member
	for i := range 3 {
		m := &member{name: fmt.Sprint("m", i), dir: t.TempDir()}
		for _, address := range []*string{&m.url, &m.peer} {
			port, err := framework.FreePort()
			require.NoError(t, err)
			*address = fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		all = append(all, m)
	}
	return all
}

// start starts a member with the program of a folder.
func (m *member) start(t *testing.T, env *framework.Environment, folder string, all []*member) {
	t.Helper()
	var cluster []string
	for _, other := range all {
		cluster = append(cluster, other.name+"="+other.peer)
	}
	var err error
	m.process, err = env.Start(framework.Command{
		Name: m.name, Path: filepath.Join(folder, "test-assets", "etcd"), Dir: m.dir, Args: []string{
			"--name=" + m.name, "--data-dir=" + filepath.Join(m.dir, "data"), "--log-level=warn",
			"--listen-client-urls=" + m.url, "--advertise-client-urls=" + m.url,
			"--listen-peer-urls=" + m.peer, "--initial-advertise-peer-urls=" + m.peer, "--initial-cluster=" + strings.Join(cluster, ","),
		},
	})
	require.NoError(t, err)
}

// version returns the versions of a member that is healthy, and of the cluster.
func (m *member) version(ctx context.Context) (server, cluster string, err error) {
	for _, path := range []string{"/health", "/version"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+path, nil)
		if err != nil {
			return "", "", err
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", "", err
		}
		var found struct{ Health, EtcdServer, EtcdCluster string }
		err = json.NewDecoder(answer.Body).Decode(&found)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			return "", "", fmt.Errorf("%s%s is %s: %w", m.url, path, answer.Status, err)
		}
		server, cluster = found.EtcdServer, found.EtcdCluster
	}
	return server, cluster, nil
}

// awaitCluster returns when all members are healthy, and the cluster has a minor version.
func awaitCluster(t *testing.T, all []*member, minor string) {
	t.Helper()
	framework.Eventually(t, "etcd is of version "+minor, func(ctx context.Context) error {
		for _, m := range all {
			server, cluster, err := m.version(ctx)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(cluster, minor+".") {
				return fmt.Errorf("%s runs %s in a cluster of %s", m.name, server, cluster)
			}
		}
		return nil
	})
}

// ofTheLeader finds a write that was on its way to a leader of etcd that hands over: etcd loses it, and answers when its time is up. A
// kube-apiserver passes the same error on.
var ofTheLeader = regexp.MustCompile(`etcdserver: request timed out(, possibly due to [a-z ]+)?$`)

func TestOnlyAWriteThatALeaderLostIsExpected(t *testing.T) {
	const timedOut = "etcdserver: request timed out"
	for failure, want := range map[string]bool{
		"12:00:00.000 POST /api/v1/namespaces/a/configmaps: 500 Internal Server Error: " + timedOut:                true,
		"12:00:00.000 server-side apply: apply: " + timedOut + ", possibly due to previous leader failure":         true,
		"12:00:00.000 POST /api/v1/namespaces/a/configmaps: 500 Internal Server Error":                             false,
		"12:00:00.000 POST /api/v1/namespaces/a/configmaps: 500 Internal Server Error: etcdserver: no space":       false,
		"12:00:00.000 a webhook: " + timedOut + ": and something else":                                             false,
		"12:00:00.000 PUT /api/v1/namespaces/a/configmaps/b: 503 Service Unavailable: no replica of core is ready": false,
	} {
		assert.Equal(t, want, ofTheLeader.MatchString(failure), failure)
	}
}

// writers is how many of the clients of package usage write, one request at a time.
const writers = 4

// expectLostWrites expects that clients failed only when a member stopped that led, and each of them at most once then.
func expectLostWrites(t *testing.T, failures []string, stops int) {
	t.Helper()
	for _, failure := range failures {
		if !ofTheLeader.MatchString(failure) {
			t.Error(failure)
		}
	}
	// A client records a request that failed, and what it used it for.
	assert.LessOrEqual(t, len(failures), 2*writers*stops, "more than one write of each client and stop: %v", failures)
}

// TestEtcdMembersAreReplacedThereAndBack replaces the members of a running Tripod one after the other, as docs/upgrade.md says.
func TestEtcdMembersAreReplacedThereAndBack(t *testing.T) {
	older, _ := older(t)
	env := framework.ForTest(t)
	newer := filepath.Dir(env.Binary("tripod"))
	all := newMembers(t)
	var urls []string
	for _, m := range all {
		m.start(t, env, older, all)
		urls = append(urls, m.url)
	}
	var before, cluster string
	framework.Eventually(t, "etcd is healthy", func(ctx context.Context) (err error) {
		before, cluster, err = all[0].version(ctx)
		return err
	})
	oldMinor := minorOf(t, before)
	awaitCluster(t, all, oldMinor)
	require.NotEmpty(t, cluster)

	servers := strings.Join(urls, ",")
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{Args: []string{
		"--etcd-servers=" + servers, "--service=wardle=" + filepath.Join(newer, "wardle"),
	}})
	require.NoError(t, err)
	require.NoError(t, tripod.Create(t.Context(), traffic.Definitions(traffic.Customs[:2])))
	c := usage.Start(t, usage.Options{Config: tripod.Admin()})
	load := traffic.Start(t, traffic.Options{Customs: traffic.Customs[:2], Rate: 60, Workers: 20, Watchers: 60}, tripod.Admin())
	replace := func(folder string) {
		for _, m := range all {
			require.NoError(t, m.process.Stop())
			m.start(t, env, folder, all)
			framework.Eventually(t, m.name+" is healthy", func(ctx context.Context) error {
				_, _, err := m.version(ctx)
				return err
			})
			load.Progress(t, 200)
		}
	}

	replace(newer)
	server, _, err := all[0].version(t.Context())
	require.NoError(t, err)
	newMinor := minorOf(t, server)
	require.NotEqual(t, oldMinor, newMinor)
	awaitCluster(t, all, newMinor)

	output, err := exec.CommandContext(t.Context(), env.Binary("tripod"), "etcd", "downgrade", "--endpoints", servers, "--to", oldMinor).CombinedOutput()
	require.NoError(t, err, "%s", output)
	replace(older)
	awaitCluster(t, all, oldMinor)

	c.Stop()
	load.Finish(t)
	lost := load.FailsOnlyWrites(t, func(f traffic.Failure) bool { return ofTheLeader.MatchString(f.Err.Error()) })
	load.WatchesAreWell(t, false)
	load.SawAll(t)
	expectLostWrites(t, c.Failures(), 2*len(all))
	t.Logf("of leaders that handed over: writes of %d workers, and %v", lost, c.Failures())
	t.Log(c)
	require.NoError(t, tripod.Stop())
}
