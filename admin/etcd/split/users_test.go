// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/base/storage/etcdclient"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/local/etcd/embedded"
	"github.com/tripod-k8s/tripod/local/etcd/embedded/embeddedtest"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// guarded is an etcd that requires certificates, and has users.
type guarded struct {
	url   string
	store *certs.Store
	ca    *certs.Authority
}

const replica, emptyGroup = "tripod-extensions-big", "example.org"

// startGuarded starts one with a partition that has groups.
func startGuarded(t *testing.T, groups ...string) guarded {
	t.Helper()
	store, err := certs.Open(t.TempDir())
	require.NoError(t, err)
	ca, err := store.Authority("ca", "etcd-ca")
	require.NoError(t, err)
	_, err = ca.Ensure("server", certs.Leaf{CommonName: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true})
	require.NoError(t, err)
	for _, user := range []string{access.Root, access.Extensions, replica} {
		_, err := ca.Ensure(user, certs.Leaf{CommonName: user, Client: true})
		require.NoError(t, err)
	}
	url, _ := embeddedtest.Start(t, embedded.Options{
		DataDir: t.TempDir(), CertFile: store.CertFile("server"), KeyFile: store.KeyFile("server"), TrustedCAFile: ca.File(),
	})
	g := guarded{url, store, ca}
	require.NoError(t, access.Apply(t.Context(), g.root(t), access.Options{
		Prefix: "/registry", Partitions: partitions.Table{"big": groups}, Progress: func(string) {},
	}))
	return g
}

func (g guarded) root(t *testing.T) *clientv3.Client {
	t.Helper()
	return g.client(t, access.Root)
}

func (g guarded) client(t *testing.T, user string) *clientv3.Client {
	t.Helper()
	client, err := access.Connect([]string{g.url}, g.ca.File(), g.store.CertFile(user), g.store.KeyFile(user))
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func (g guarded) etcd(flag, user string) Etcd {
	return Etcd{Flag: flag, Servers: []string{g.url}, CAFile: g.ca.File(), CertFile: g.store.CertFile(user), KeyFile: g.store.KeyFile(user)}
}

// config is what a replica of the partition has.
func (g guarded) config() storagebackend.Config {
	config := storagebackend.NewDefaultConfig("/registry", unstructured.UnstructuredJSONScheme)
	config.Transport = storagebackend.TransportConfig{
		ServerList: []string{g.url}, TrustedCAFile: g.ca.File(), CertFile: g.store.CertFile(replica), KeyFile: g.store.KeyFile(replica),
	}
	config.CompactionInterval = 0
	return *config
}

// widgetsOf returns the storage of a replica.
func widgetsOf(t *testing.T, groups *placement.Groups, group string) storage.Interface {
	t.Helper()
	s, destroy, err := groups.Decorate(func(raw etcdclient.NewRawStorage) generic.StorageDecorator { return etcdclient.Decorator(raw, false) })(
		groups.Shared.ForResource(schema.GroupResource{Group: group, Resource: "widgets"}), "/"+group+"/widgets", nil,
		func() runtime.Object { return &unstructured.Unstructured{} }, func() runtime.Object { return &unstructured.UnstructuredList{} },
		storage.DefaultClusterScopedAttr, nil, nil)
	require.NoError(t, err)
	t.Cleanup(destroy)
	return s
}

func createWidget(t *testing.T, s storage.Interface, group, name string) error {
	t.Helper()
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
	}}
	return s.Create(t.Context(), "/"+group+"/widgets/"+name, widget, nil, 0)
}

// groupsOf are the groups of a replica of the partition.
func groupsOf(t *testing.T, shared, own guarded, hasOwn bool) *placement.Groups {
	t.Helper()
	clients, there := &etcdclient.Clients{}, []storagebackend.Config{shared.config(), own.config()}
	t.Cleanup(func() { // an etcd waits for the watches of its clients when it ends
		for _, config := range there {
			if client, err := clients.Client(&config); assert.NoError(t, err) {
				client.Close()
			}
		}
	})
	return &placement.Groups{
		Clients: clients, Shared: there[0], Name: "extensions-big",
		Own: func(string) (storagebackend.Config, bool) { return there[1], hasOwn },
	}
}

func TestAReplicaWithoutTheRightsSaysSo(t *testing.T) {
	t.Parallel()
	const group = "example.com"
	shared := startGuarded(t, group)
	all := func(string) bool { return true }
	ofNone := groupsOf(t, shared, shared, false)
	ofNone.Shared.Transport.CertFile, ofNone.Shared.Transport.KeyFile = shared.store.CertFile(access.Extensions), shared.store.KeyFile(access.Extensions)
	require.NoError(t, ofNone.Check(t.Context(), all))
	require.ErrorContains(t, ofNone.Check(t.Context(), all, group), "cannot read the keys of its API groups, such as example.com: the user of its",
		"before there is a definition of the group")
	_, err := shared.root(t).Put(t.Context(), crds+"widgets."+group, "{}")
	require.NoError(t, err)
	require.NoError(t, groupsOf(t, shared, shared, false).Check(t.Context(), all))
	other := groupsOf(t, shared, shared, false)
	other.Shared.Transport.CertFile, other.Shared.Transport.KeyFile = shared.store.CertFile(access.Extensions), shared.store.KeyFile(access.Extensions)
	assert.EqualError(t, other.Check(t.Context(), all), "extensions-big cannot read the keys of its API groups, such as example.com: "+
		"the user of its --etcd-certfile has no rights to them (tripod etcd access): etcdserver: permission denied")
}

// The groups below a suffix are no range of keys, so the user of extensions reaches them in the shared etcd.
func TestAStolenUserMovesNoGroupOutOfItsOwnEtcd(t *testing.T) {
	t.Parallel()
	const group = "team.example.com"
	keys := placement.KeysOf("/registry", group)
	shared, own := startGuarded(t, "*.example.com"), startGuarded(t, "*.example.com")
	_, err := shared.root(t).Put(t.Context(), crds+"widgets."+group, "{}")
	require.NoError(t, err)
	running, starting := widgetsOf(t, groupsOf(t, shared, own, true), group), widgetsOf(t, groupsOf(t, shared, own, true), group)
	require.NoError(t, createWidget(t, running, group, "a"))
	items := func(s storage.Interface) int {
		list := &unstructured.UnstructuredList{}
		require.NoError(t, s.GetList(t.Context(), "/"+group+"/widgets", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list))
		return len(list.Items)
	}

	thief := shared.client(t, access.Extensions)
	_, err = thief.Txn(t.Context()).Then(keys.Put(placement.Record{Move: "forged"}), clientv3.OpPut(keys.Objects+"widgets/forged", "{}")).Commit()
	require.NoError(t, err, "it reaches the group")
	err = createWidget(t, starting, group, "b")
	require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	for _, name := range []string{"c", "d", "e"} {
		require.NoError(t, createWidget(t, running, group, name))
	}
	assert.Equal(t, 4, items(running))

	o := GroupOptions{
		Shared: shared.etcd("extensions-etcd", access.Root), Own: own.etcd("partition-etcd", access.Root), Prefix: "/registry",
		To: away, Groups: []string{group}, Progress: func(string) {}, ahead: fewAhead,
	}
	_, err = MoveGroups(t.Context(), o)
	require.ErrorContains(t, err, "both have objects")
	_, err = shared.root(t).Delete(t.Context(), keys.Objects+"widgets/forged")
	require.NoError(t, err)
	_, err = MoveGroups(t.Context(), o)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return createWidget(t, starting, group, "b") == nil }, time.Minute, 10*time.Millisecond)
	assert.Equal(t, 5, items(starting))
	assert.Equal(t, 5, items(running))
	assert.Empty(t, contents(t, shared.root(t), keys.Objects+"widgets/"))
}

// Etcds with users let the command move as root, and a replica follow with its own rights, which are those for its groups.
func TestGroupsMoveBetweenEtcdsWithUsers(t *testing.T) {
	t.Parallel()
	shared, own := startGuarded(t, movedGroup, emptyGroup), startGuarded(t, movedGroup, emptyGroup)
	_, err := shared.root(t).Put(t.Context(), crds+"widgets."+movedGroup, "{}")
	require.NoError(t, err)
	require.NoError(t, createWidget(t, widgetsOf(t, groupsOf(t, shared, own, false), movedGroup), movedGroup, "a"))
	with := groupsOf(t, shared, own, true)
	s := widgetsOf(t, with, movedGroup)
	require.NoError(t, createWidget(t, s, movedGroup, "b"))
	require.Eventually(t, func() bool {
		state, err := movedKeys.Read(t.Context(), own.root(t))
		return err == nil && state.Reader == "extensions-big"
	}, time.Minute, 50*time.Millisecond)

	o := GroupOptions{
		Shared: shared.etcd("extensions-etcd", access.Root), Own: own.etcd("partition-etcd", access.Root), Prefix: "/registry",
		Groups: []string{movedGroup}, DeleteSource: true, Progress: func(string) {}, ahead: fewAhead,
	}
	for n, to := range []string{away, back, away} {
		o.To = to
		reports, err := MoveGroups(t.Context(), o)
		require.NoError(t, err)
		assert.True(t, reports[0].Moved)
		assert.Equal(t, int64(2+n), reports[0].DeletedFromSource)
		require.Eventually(t, func() bool { return createWidget(t, s, movedGroup, to+string(rune('0'+n))) == nil }, time.Minute, 10*time.Millisecond)
		list := &unstructured.UnstructuredList{}
		opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
		require.NoError(t, s.GetList(t.Context(), "/"+movedGroup+"/widgets", opts, list))
		assert.Len(t, list.Items, 3+n)
	}
	require.NoError(t, createWidget(t, widgetsOf(t, with, emptyGroup), emptyGroup, "a"), "a group without objects")
	assert.Len(t, contents(t, own.root(t), "/registry/"+emptyGroup+"/widgets/"), 1)

	o.Own.CAFile, o.Own.CertFile, o.Own.KeyFile = "", "", ""
	_, err = MoveGroups(t.Context(), o)
	require.ErrorContains(t, err, "--partition-etcd")
	o.Own = own.etcd("partition-etcd", replica)
	o.Shared = shared.etcd("extensions-etcd", replica)
	o.Groups = []string{"example.net"}
	_, err = MoveGroups(t.Context(), o)
	require.ErrorContains(t, err, "--extensions-etcd: only the user root of etcd has the rights", "another user than root")
}
