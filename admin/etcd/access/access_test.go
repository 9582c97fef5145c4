// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"net"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/etcd/embedded/embeddedtest"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// server is an etcd that knows its clients by their certificates.
type server struct {
	url   string
	store *certs.Store
	ca    *certs.Authority
}

func start(t testing.TB) *server {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("ca", "etcd-ca")
	require.NoError(t, err)
	_, err = ca.Ensure("server", certs.Leaf{CommonName: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true})
	require.NoError(t, err)
	url, _ := embeddedtest.Start(t, embedded.Options{
		DataDir: t.TempDir(), CertFile: store.CertFile("server"), KeyFile: store.KeyFile("server"), TrustedCAFile: ca.File(),
	})
	return &server{url: url, store: store, ca: ca}
}

// as returns a client with a certificate of the user.
func (s *server) as(t testing.TB, user string) *clientv3.Client {
	t.Helper()
	_, err := s.ca.Ensure(user, certs.Leaf{CommonName: user, Client: true})
	require.NoError(t, err)
	client, err := Connect([]string{s.url}, s.ca.File(), s.store.CertFile(user), s.store.KeyFile(user))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// changes applies, and returns what that has changed.
func changes(t testing.TB, client *clientv3.Client, o Options) (lines []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.Progress = func(line string) { lines = append(lines, line) }
	require.NoError(t, Apply(ctx, client, o))
	return lines
}

// may returns whether etcd permits a request, or its error.
func may(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Fatal(err)
	}
	return err == nil
}

func TestPartitionsReachOnlyTheirGroups(t *testing.T) {
	s := start(t)
	table := partitions.Table{"big": {"example.com", "example.org"}, "wide": {"*.example.net"}}
	const big, wide = "tripod-extensions-big", "tripod-extensions-wide"
	assert.NotEmpty(t, changes(t, s.as(t, Root), Options{Prefix: "/registry", Partitions: table}))
	assert.Empty(t, changes(t, s.as(t, Root), Options{Prefix: "/registry", Partitions: table}), "a second run has nothing to do")
	const definition = "/registry/apiextensions.k8s.io/customresourcedefinitions/boats.example.com"
	for key, writers := range map[string]string{
		definition: Extensions,
		"/registry/apiregistration.k8s.io/apiservices/v1.example.com": Aggregator,
		"/registry/secrets/default/a":                                 Core,
		"/registry/example.com/boats/default/a":                       big,
		"/registry/example.org/boats/default/a":                       big,
		"/registry/a.example.com/boats/default/a":                     Extensions + " " + wide,
		// etcd cannot limit users to a suffix.
		"/registry/a.example.net/boats/default/a": Extensions + " " + wide,
		compactRevision: Core + " " + Extensions + " " + big + " " + wide,
	} {
		for _, user := range []string{Core, Extensions, Aggregator, big, wide} {
			client, writes := s.as(t, user), slices.Contains(strings.Fields(writers), user)
			reads := writes || key == definition && (user == big || user == wide)
			_, get := client.Get(t.Context(), key)
			_, put := client.Put(t.Context(), key, "")
			_, remove := client.Delete(t.Context(), key)
			assert.Equal(t, []bool{reads, writes, writes}, []bool{may(t, get), may(t, put), may(t, remove)}, "%s and %s", user, key)
		}
	}
	_, list := s.as(t, big).Get(t.Context(), path.Dir(definition)+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	assert.True(t, may(t, list), "a partition lists the names of definitions")
}

func TestEachServiceReachesOnlyItsOwnKeys(t *testing.T) {
	for _, prefix := range []string{"/registry", "of/another"} {
		t.Run(prefix, func(t *testing.T) {
			s := start(t)
			below := "/" + strings.Trim(prefix, "/")
			const wardle = "tripod-wardle"
			changes(t, s.as(t, Root), Options{Prefix: prefix, Services: []Service{
				{Name: "wardle", Directories: []string{below + "/wardle.example.com", "/services/wardle"}},
			}})
			for key, owners := range map[string]string{
				below + "/secrets/default/a":                                                Core,
				below + "/pods/default/a":                                                   Core,
				below + "/services/specs/default/a":                                         Core,
				below + "/masterleases/10.0.0.1":                                            Core,
				below + "/ranges/serviceips":                                                Core,
				below + "/apiregistration.k8s.io/apiservices/v1.example.com":                Aggregator,
				below + "/apiextensions.k8s.io/customresourcedefinitions/boats.example.com": Extensions,
				below + "/example.com/boats/default/a":                                      Extensions,
				below + "/pods.example.com/boats/default/a":                                 Extensions,
				below + "/secrets.k8s.io/boats/default/a":                                   Extensions,
				below + "/wardle.example.com/flunders/default/a":                            Extensions + " " + wardle,
				"/services/wardle/wardle.example.com/flunders/default/a":                    wardle,
				"/services/search/search.example.com/queries/a":                             "",
				compactRevision:                Core + " " + Extensions,
				"/registry2/secrets/default/a": "",
				"/tripod/split":                "",
				"a":                            "",
			} {
				for _, user := range []string{Core, Extensions, Aggregator, wardle, Root, "etcd", "somebody"} {
					client, want := s.as(t, user), user == Root || strings.Contains(owners, user)
					_, get := client.Get(t.Context(), key)
					_, put := client.Put(t.Context(), key, "")
					_, remove := client.Delete(t.Context(), key)
					_, compare := client.Txn(t.Context()).If(clientv3.Compare(clientv3.Value(key), "=", "guess")).Commit()
					if may(t, get) != want || may(t, put) != want || may(t, remove) != want || may(t, compare) != want {
						t.Errorf("%s and %s: get %v, put %v, delete %v, compare %v; want %v", user, key, get, put, remove, compare, want)
					}
				}
			}
			for _, user := range []string{Core, Extensions, Aggregator, wardle, "etcd", "somebody"} {
				client := s.as(t, user)
				for what, options := range map[string][]clientv3.OpOption{
					"everything": {clientv3.WithFromKey()}, "all of the prefix": {clientv3.WithPrefix()}, "counts": {clientv3.WithPrefix(), clientv3.WithCountOnly()},
				} {
					if _, err := client.Get(t.Context(), below+"/", options...); may(t, err) {
						t.Errorf("%s may read %s", user, what)
					}
				}
				watch := <-client.Watch(t.Context(), below+"/", clientv3.WithPrefix())
				assert.ErrorContains(t, watch.Err(), "permission denied", "%s watches", user)
				_, health := client.Get(t.Context(), below+"/health")
				_, writes := client.Put(t.Context(), below+"/health", "")
				if known := strings.HasPrefix(user, "tripod-"); may(t, health) != known || may(t, writes) != (user == Extensions) {
					t.Errorf("%s and the key of health: read %v, write %v", user, health, writes)
				}
				_, grant := client.UserGrantRole(t.Context(), user, Root)
				_, off := client.AuthDisable(t.Context())
				for what, err := range map[string]error{"give itself the role root": grant, "turn authentication off": off} {
					if !errors.Is(err, rpctypes.ErrPermissionDenied) && !errors.Is(err, rpctypes.ErrUserNotFound) {
						t.Errorf("%s may %s: %v", user, what, err)
					}
				}
			}
		})
	}
}

func TestASnapshotIsForRoot(t *testing.T) {
	s := start(t)
	changes(t, s.as(t, Root), Options{Prefix: "/registry"})
	for _, user := range []string{Core, Extensions, Aggregator, Root} {
		reader, err := s.as(t, user).Snapshot(t.Context())
		require.NoError(t, err)
		_, err = reader.Read(make([]byte, 1))
		if (err == nil) != (user == Root) {
			t.Errorf("%s: %v", user, err)
		}
		reader.Close()
	}
}

func TestRunsRepairWhatDiffers(t *testing.T) {
	s := start(t)
	root := s.as(t, Root)
	o := Options{Prefix: "/registry", Former: "tripod"}
	assert.Contains(t, changes(t, root, o), "turned authentication on")
	assert.Empty(t, changes(t, root, o), "replicas from before are still there")
	_, err := s.as(t, "tripod").Get(t.Context(), "/registry/secrets/", clientv3.WithPrefix())
	require.NoError(t, err, "a replica from before")
	without := Options{Prefix: "/registry", Remove: "tripod"}
	assert.Equal(t, []string{"removed user tripod"}, changes(t, root, without))
	if _, err := s.as(t, "tripod").Get(t.Context(), "/registry/secrets/", clientv3.WithPrefix()); may(t, err) {
		t.Error("the former user may still read everything")
	}
	assert.Empty(t, changes(t, root, without))
	assert.Empty(t, changes(t, root, o), "nobody needs the former user again")

	_, err = root.RoleGrantPermission(t.Context(), Aggregator, "/", "0", clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	_, err = root.RoleRevokePermission(t.Context(), Core, "/registry/pods/", "/registry/pods0")
	require.NoError(t, err)
	changes(t, root, o)
	if _, err := s.as(t, Aggregator).Get(t.Context(), "/registry/secrets/", clientv3.WithPrefix()); may(t, err) {
		t.Error("the aggregator keeps a range that somebody granted it")
	}
	if _, err := s.as(t, Core).Get(t.Context(), "/registry/pods/", clientv3.WithPrefix()); !may(t, err) {
		t.Error("core may not read pods")
	}
	require.NoError(t, Disable(t.Context(), root))
	_, err = s.as(t, "somebody").Get(t.Context(), "/", clientv3.WithPrefix())
	require.NoError(t, err)
	assert.Equal(t, []string{"added user tripod", "gave user tripod role root", "turned authentication on"}, changes(t, root, o))
}

func TestAdministratorsMayDoEverything(t *testing.T) {
	s := start(t)
	const kubeadm = "kube-etcd-healthcheck-client"
	o := Options{Prefix: "/registry", Administrators: []string{kubeadm}}
	assert.Contains(t, changes(t, s.as(t, Root), o), "gave user "+kubeadm+" role root")
	assert.Empty(t, changes(t, s.as(t, Root), o))
	_, err := s.as(t, kubeadm).MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"})
	require.NoError(t, err, "as kubeadm does when a control-plane node joins")
	_, err = s.as(t, Core).MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:2"})
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	assert.Contains(t, Commands(o), "etcdctl user grant-role "+kubeadm+" root\n")

	err = Apply(t.Context(), s.as(t, Root), o)
	require.ErrorContains(t, err, "is unknown")
	assert.NotContains(t, err.Error(), "%!", "the member has no address that could have failed")
}

// TestAwaitSaysWhichEtcdDoesNotAnswer ends the wait in the middle of a request.
func TestAwaitSaysWhichEtcdDoesNotAnswer(t *testing.T) {
	client, err := Connect([]string{"http://127.0.0.1:1"}, "", "", "")
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, Await(ctx, client), "etcd at http://127.0.0.1:1 does not answer")
}
