// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// giveUp ends a wait that would never end.
const giveUp = 2 * time.Minute

// cluster is an etcd of three members.
type cluster struct {
	client  *clientv3.Client
	servers map[string]*embed.Etcd
	stop    map[string]func()
}

// free returns URLs of free ports, which are all reserved until all are found.
func free(t *testing.T, n int) []url.URL {
	t.Helper()
	var found []url.URL
	for range n {
		port, err := replicas.ReservePort()
		require.NoError(t, err)
		defer port.Release()
		parsed, err := url.Parse(strings.Replace(port.URL(), "https", "http", 1))
		require.NoError(t, err)
		found = append(found, *parsed)
	}
	return found
}

// start starts an etcd. The client knows only its first member.
func start(t *testing.T, quota int64) *cluster {
	t.Helper()
	c := &cluster{servers: map[string]*embed.Etcd{}, stop: map[string]func(){}}
	var configs []*embed.Config
	var initial []string
	urls := free(t, 6)
	for i := range 3 {
		config := embed.NewConfig()
		config.Name, config.Dir, config.LogLevel = fmt.Sprintf("etcd-%d", i), t.TempDir(), "fatal"
		config.QuotaBackendBytes, config.UnsafeNoFsync = quota, true
		config.ListenClientUrls, config.ListenPeerUrls = urls[2*i:2*i+1], urls[2*i+1:2*i+2]
		config.ElectionMs = 3000 // a busy machine must not change the leader
		config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
		initial = append(initial, config.Name+"="+config.ListenPeerUrls[0].String())
		configs = append(configs, config)
	}
	for _, config := range configs {
		config.InitialCluster = strings.Join(initial, ",")
		server, err := embed.StartEtcd(config)
		require.NoError(t, err)
		c.servers[config.Name], c.stop[config.Name] = server, sync.OnceFunc(server.Close)
		t.Cleanup(c.stop[config.Name])
	}
	for _, server := range c.servers {
		<-server.Server.ReadyNotify()
	}
	client, err := access.Connect([]string{configs[0].ListenClientUrls[0].String()}, "", "", "")
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	c.client = client
	c.await(t, func(members []Member) bool { return len(members) == 3 && Problems(members) == nil })
	for i := range spare {
		_, err := client.Put(t.Context(), fmt.Sprintf("/spare/%d", i), "")
		require.NoError(t, err)
	}
	return c
}

// await returns the members once they are in a state.
func (c *cluster) await(t *testing.T, is func([]Member) bool) (members []Member) {
	t.Helper()
	var last any
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, giveUp, true, func(ctx context.Context) (bool, error) {
		found, err := Status(ctx, c.client, nil)
		members, last = found, err
		return err == nil && is(found), nil
	})
	require.NoError(t, err, "%+v, %v", members, last)
	return members
}

// fill writes and deletes until little of the databases is in use.
func (c *cluster) fill(t *testing.T) {
	t.Helper()
	var revision int64
	for i := range 16 {
		answer, err := c.client.Put(t.Context(), "/filled", fmt.Sprint(i)+strings.Repeat("x", 1<<20))
		require.NoError(t, err)
		revision = answer.Header.Revision
	}
	_, err := c.client.Delete(t.Context(), "/filled")
	require.NoError(t, err)
	c.compact(t, revision+1)
}

// spare are keys that a full etcd can still delete.
const spare = 500

// compact returns when all members have freed what is compacted, which takes further writes: deletions of spare keys.
func (c *cluster) compact(t *testing.T, revision int64) {
	t.Helper()
	_, err := c.client.Compact(t.Context(), revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	n := 0
	c.await(t, func(members []Member) bool {
		_, err := c.client.Delete(t.Context(), fmt.Sprintf("/spare/%d", n))
		require.NoError(t, err)
		n++
		return !slices.ContainsFunc(members, func(m Member) bool { return m.DBSizeInUse > 2<<20 })
	})
}

func (c *cluster) defrag(t *testing.T) ([]Defragmented, []string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), giveUp)
	defer cancel()
	var lines []string
	done, err := Defrag(ctx, c.client, DefragOptions{Recovery: time.Minute, Progress: func(line string) { lines = append(lines, line) }})
	return done, lines, err
}

func sizes(members []Member) map[string]int64 {
	found := map[string]int64{}
	for _, m := range members {
		found[m.Name] = m.DBSize
	}
	return found
}

func isLeader(m Member) bool { return m.Leader }

func TestMembersAreDefragmentedTheLeaderLast(t *testing.T) {
	c := start(t, 0)
	c.fill(t)
	before, err := Status(t.Context(), c.client, nil)
	require.NoError(t, err)
	leader := before[slices.IndexFunc(before, isLeader)].Name
	for _, m := range before {
		assert.Equal(t, embedded.Version, m.Version)
		assert.Greater(t, m.DBSize, int64(8<<20), m.Name)
		assert.Greater(t, m.DBQuota, m.DBSize, m.Name)
		assert.Empty(t, m.Alarms)
	}

	planned, err := Defrag(t.Context(), c.client, DefragOptions{DryRun: true, Progress: func(line string) { t.Errorf("changed: %s", line) }})
	require.NoError(t, err)
	after, err := Status(t.Context(), c.client, nil)
	require.NoError(t, err)
	assert.Equal(t, sizes(before), sizes(after), "a dry run changes nothing")

	done, lines, err := c.defrag(t)
	require.NoError(t, err)
	require.Len(t, done, 3)
	require.Len(t, planned, 3)
	for i, d := range done {
		assert.Equal(t, d.Name == leader, d.Leader)
		assert.Equal(t, planned[i].Name, d.Name, "the order of the dry run")
		assert.Equal(t, sizes(before)[d.Name], d.Before)
		assert.Less(t, d.After, int64(4<<20), d.Name)
		assert.Positive(t, d.Took)
		assert.Contains(t, strings.Join(lines, "\n"), d.Name+" (")
	}
	assert.True(t, done[2].Leader, "%+v", done)
	after, err = Status(t.Context(), c.client, nil)
	require.NoError(t, err)
	for _, m := range after {
		assert.Less(t, m.DBSize, int64(4<<20), m.Name)
	}
}

func TestNothingIsDefragmentedWhileAMemberIsAway(t *testing.T) {
	c := start(t, 0)
	c.fill(t)
	members, err := Status(t.Context(), c.client, nil)
	require.NoError(t, err)
	// The client knows the first member.
	away := members[slices.IndexFunc(members, func(m Member) bool { return !m.Leader && m.Name != "etcd-0" })].Name
	c.stop[away]()
	members = c.await(t, func(members []Member) bool { return Problems(members) != nil })
	for _, m := range members {
		assert.Equal(t, m.Name == away, m.Problem != "", "%+v", m)
	}
	assert.ErrorContains(t, Problems(members), "member "+away+" is not healthy: it does not answer at http://127.0.0.1:")
	_, lines, err := c.defrag(t)
	assert.ErrorContains(t, err, "nothing is defragmented: member "+away+" is not healthy")
	assert.Empty(t, lines)

	// Without a majority, those that live are still listed.
	for name, stop := range c.stop {
		if name != "etcd-0" {
			stop()
		}
	}
	members = c.await(t, func(members []Member) bool {
		return len(members) == 3 && strings.Contains(members[0].Problem, "knows no leader")
	})
	assert.NotEmpty(t, members[0].Version)
	_, _, err = c.defrag(t)
	assert.ErrorContains(t, err, "nothing is defragmented")
}

func TestNothingIsDefragmentedAfterCorruption(t *testing.T) {
	c := start(t, 0)
	c.fill(t)
	before, err := Status(t.Context(), c.client, nil)
	require.NoError(t, err)
	_, err = pb.NewMaintenanceClient(c.client.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: before[1].id, Alarm: pb.AlarmType_CORRUPT})
	require.NoError(t, err)
	_, lines, err := c.defrag(t)
	assert.EqualError(t, err, "nothing is defragmented: member etcd-1 has the alarm CORRUPT: repair it first")
	assert.Empty(t, lines)
	after, err := Status(t.Context(), c.client, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"CORRUPT"}, after[1].Alarms)
	assert.Empty(t, after[0].Alarms)
	assert.Equal(t, sizes(before), sizes(after))
}

func TestAFullEtcdAcceptsWritesAgain(t *testing.T) {
	c := start(t, 12<<20)
	// As long as a defragmentation gains space, there is space for more. In the end, all is in use, and the alarm stays. A member counts what
	// its database has committed, ten times a second: a fast machine writes far more than the quota before the first refusal.
	var stays error
	for keys := 0; stays == nil; {
		require.Less(t, keys, 500)
		_, err := c.client.Put(t.Context(), fmt.Sprintf("/filled/%d", keys), strings.Repeat("x", 1<<19))
		if err == nil {
			keys++
			continue
		}
		require.ErrorIs(t, err, rpctypes.ErrNoSpace)
		c.await(t, func(members []Member) bool {
			return slices.ContainsFunc(members, func(m Member) bool { return slices.Contains(m.Alarms, "NOSPACE") })
		})
		_, _, stays = c.defrag(t)
	}
	assert.ErrorContains(t, stays, "the alarm NOSPACE stays, because etcd-")
	answer, err := c.client.Delete(t.Context(), "/filled/", clientv3.WithPrefix())
	require.NoError(t, err)
	c.compact(t, answer.Header.Revision)
	_, err = c.client.Put(t.Context(), "/more", "x")
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
	_, lines, err := c.defrag(t)
	require.NoError(t, err)
	assert.Contains(t, lines[len(lines)-1], "the alarm NOSPACE is cleared")
	_, err = c.client.Put(t.Context(), "/more", "x")
	require.NoError(t, err)
}

func TestTheLeaderIsLastAlsoIfItChanges(t *testing.T) {
	members := []Member{{Name: "a", id: 1, Leader: true}, {Name: "b", id: 2}, {Name: "c", id: 3}}
	finished := map[uint64]bool{}
	assert.Equal(t, "b", choose(members, finished).Name)
	finished[2] = true
	members[0].Leader, members[2].Leader = false, true
	assert.Equal(t, "a", choose(members, finished).Name)
	finished[1] = true
	assert.Equal(t, "c", choose(members, finished).Name)
	finished[3] = true
	assert.Nil(t, choose(members, finished))
}

func TestMembersAreComparedWithOneAnother(t *testing.T) {
	for name, test := range map[string]struct {
		second Member
		want   string
	}{
		"well":           {Member{leader: 1, index: 9000, applied: 8999}, ""},
		"behind":         {Member{leader: 1, index: 9000, applied: 3999}, "5001 entries behind"},
		"no leader":      {Member{index: 9000, applied: 9000}, "knows no leader"},
		"another leader": {Member{leader: 3, index: 9000, applied: 9000}, "takes 3 for the leader"},
	} {
		members := []Member{{Name: "a", id: 1, Leader: true, leader: 1, index: 9000, applied: 9000}, test.second}
		judge(members)
		assert.Empty(t, members[0].Problem, name)
		assert.Contains(t, members[1].Problem, test.want, name)
		assert.Equal(t, test.want == "", members[1].Problem == "", name)
	}
}

func TestAnEtcdThatDoesNotRunIsWaitedForAloud(t *testing.T) {
	dead := free(t, 1)[0].String()
	client, err := access.Connect([]string{dead}, "", "", "")
	require.NoError(t, err)
	defer func() { assert.NoError(t, client.Close()) }()
	for name, ask := range map[string]func(context.Context, func(string)) error{
		"status": func(ctx context.Context, say func(string)) error {
			_, err := Status(ctx, client, say)
			return err
		},
		"defrag": func(ctx context.Context, say func(string)) error {
			_, err := Defrag(ctx, client, DefragOptions{Progress: say})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var output []string
			err := ask(ctx, func(line string) {
				output = append(output, line)
				cancel() // a person who reads this does not wait any longer
			})
			assert.Equal(t, []string{"waiting for etcd at " + dead}, output)
			require.ErrorContains(t, err, "etcd at "+dead+" cannot be reached: dial tcp")
			assert.ErrorContains(t, err, "connection refused")
		})
	}
}
