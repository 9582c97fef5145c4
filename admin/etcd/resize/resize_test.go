// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/admin/etcd/access"
)

// writer writes one key after the other until it is stopped.
type writer struct {
	client *clientv3.Client
	stop   func()
	// kept are the numbers of keys that etcd has confirmed.
	kept []int
	// last is the number of the last one.
	last atomic.Int64
}

func (c *cluster) write() *writer {
	w := &writer{client: c.connect(0)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; ctx.Err() == nil; i++ {
			asking, cancel := context.WithTimeout(ctx, requestTimeout)
			if _, err := w.client.Put(asking, key(i), "x"); err == nil {
				w.kept = append(w.kept, i)
				w.last.Store(int64(i))
			}
			cancel()
		}
	}()
	w.stop = func() { cancel(); <-done }
	c.t.Cleanup(w.stop)
	return w
}

func key(i int) string { return fmt.Sprintf("/written/%d", i) }

func (c *cluster) connect(ordinal int) *clientv3.Client {
	c.t.Helper()
	client, err := access.Connect([]string{c.urls[ordinal]}, "", "", "")
	require.NoError(c.t, err)
	c.t.Cleanup(func() { assert.NoError(c.t, client.Close()) })
	return client
}

// checkKept expects all confirmed keys at each member.
func (c *cluster) checkKept(w *writer, members int) {
	c.t.Helper()
	w.stop()
	for i := range members {
		answer, err := c.connect(i).Get(c.t.Context(), "/written/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		require.NoError(c.t, err)
		there := map[string]bool{}
		for _, kv := range answer.Kvs {
			there[string(kv.Key)] = true
		}
		for _, n := range w.kept {
			assert.True(c.t, there[key(n)], "%s is lost at member %d", key(n), i)
		}
	}
}

// check expects that all is as after an installation with so many members.
func (c *cluster) check(members int) {
	c.t.Helper()
	list, err := c.connect(0).MemberList(c.t.Context())
	require.NoError(c.t, err)
	assert.Len(c.t, list.Members, members)
	for _, m := range list.Members {
		assert.False(c.t, m.IsLearner, m.Name)
	}
	set, err := c.client.AppsV1().StatefulSets("a").Get(c.t.Context(), setName, metav1.GetOptions{})
	require.NoError(c.t, err)
	assert.Equal(c.t, members, declared(set))
	assert.EqualValues(c.t, members, *set.Spec.Replicas)
	want := stateful(members)
	assert.Equal(c.t, want.Labels, set.Labels)
	assert.Equal(c.t, want.Annotations, set.Annotations)
	assert.Equal(c.t, want.Spec, set.Spec, "the StatefulSet is that of an installation")
	record, err := c.client.CoreV1().ConfigMaps("a").Get(c.t.Context(), setName+recordSuffix, metav1.GetOptions{})
	require.NoError(c.t, err)
	assert.Empty(c.t, record.Annotations)
	assert.Equal(c.t, members, strings.Count(record.Data[keyMembers], "="))
	assert.Equal(c.t, set.UID, record.OwnerReferences[0].UID)
	for i := range maxMembers {
		assert.Equal(c.t, i < members, c.hasClaim(i), "volume of member %d", i)
	}
	c.checkServices(members)
	leases, err := c.client.CoordinationV1().Leases("a").List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	assert.Empty(c.t, leases.Items)
}

// checkServices expects that what uses the etcd has the arguments of an installation.
func (c *cluster) checkServices(members int) {
	c.t.Helper()
	for _, object := range objects(c.t, members) {
		want, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		d, err := c.client.AppsV1().Deployments("a").Get(c.t.Context(), want.Name, metav1.GetOptions{})
		require.NoError(c.t, err)
		assert.Equal(c.t, want.Spec.Template, d.Spec.Template)
	}
	job, err := c.client.BatchV1().CronJobs("a").Get(c.t.Context(), "tripod-etcd-snapshot", metav1.GetOptions{})
	require.NoError(c.t, err)
	assert.Equal(c.t, members, strings.Count(job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args[2], ":2379"))
}

func TestAnEtcdGrowsAndShrinksWhileClientsWrite(t *testing.T) {
	c := newCluster(t, 1, true)
	w := c.write()
	require.NoError(t, c.resize(t.Context(), c.options(3)))
	c.check(3)
	grown := w.last.Load()
	c.await("clients write on", func() bool { return w.last.Load() > grown })

	c.lead(2)
	shrinking := c.options(1)
	// Until no service uses it, no member goes.
	c.client.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		list, err := w.client.MemberList(context.Background())
		assert.NoError(t, err)
		assert.Len(t, list.Members, 3)
		return false, nil, nil
	})
	require.NoError(t, c.resize(t.Context(), shrinking))
	c.check(1)
	shrunk := w.last.Load()
	c.await("clients write on", func() bool { return w.last.Load() > shrunk })
	c.checkKept(w, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(t, 1, c.started[0], "the first member has started again")
}

// lead makes a member the leader.
func (c *cluster) lead(ordinal int) {
	c.t.Helper()
	c.await("the member leads", func() bool {
		list, err := c.connect(0).MemberList(c.t.Context())
		require.NoError(c.t, err)
		var to *pb.Member
		for _, m := range list.Members {
			if m.Name == name(ordinal) {
				to = m
			}
		}
		status, err := c.connect(0).Status(c.t.Context(), c.urls[0])
		require.NoError(c.t, err)
		for i, m := range list.Members {
			if m.ID == status.Leader && m.ID != to.ID {
				_, err := c.connect(ordinalOf(list.Members[i].Name)).MoveLeader(c.t.Context(), to.ID)
				c.t.Log(err)
			}
		}
		return status.Leader == to.ID
	})
}

func ordinalOf(member string) int { return int(member[len(member)-1] - '0') }

// TestAnInterruptedResizeContinues interrupts a command at requests that change something, and runs it again, or turns back.
func TestAnInterruptedResizeContinues(t *testing.T) {
	c := newCluster(t, 1, false)
	w := c.write()
	var made, limit int
	var interrupt context.CancelFunc
	c.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if !changes(action) {
			return false, nil, nil
		}
		if made++; limit > 0 && made == limit {
			interrupt()
			return true, nil, context.Canceled
		}
		return false, nil, nil
	})
	// interrupted reports whether the command was interrupted before a change.
	interrupted := func(members, at int) bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		made, limit, interrupt = 0, at, cancel
		err := c.resize(ctx, c.options(members))
		limit = 0
		if made < at {
			require.NoError(t, err)
			return false
		}
		require.Error(t, err)
		return true
	}
	for _, members := range []int{3, 1} {
		other := 4 - members
		for _, at := range []int{1, 4, 10} { // of about 15
			require.NoError(t, c.resize(t.Context(), c.options(other)))
			require.True(t, interrupted(members, at))
			next := members
			if at%2 == 0 {
				next = other
			}
			require.NoError(t, c.resize(t.Context(), c.options(next)), "%d members, change %d, then %d members", members, at, next)
			c.check(next)
		}
	}
	c.checkKept(w, 1)
}

func TestADryRunChangesNothing(t *testing.T) {
	c := newCluster(t, 1, true)
	all, err := c.find(t.Context(), c.options(3))
	require.NoError(t, err)
	c.client.ClearActions()
	plan, err := all[0].plan(t.Context())
	require.NoError(t, err)
	assert.Equal(t, &Plan{Etcd: "etcd", Members: 1, Target: 3, Steps: []string{
		"tripod-etcd-1 would join as a learner, copy all data, and get a vote",
		"tripod-etcd-2 would join as a learner, copy all data, and get a vote",
		"the services would restart one pod after the other, with 3 members",
	}}, plan)
	for _, action := range c.client.Actions() {
		assert.False(t, changes(action), "%s %s", action.GetVerb(), action.GetResource().Resource)
	}
	all, err = c.find(t.Context(), c.options(1))
	require.NoError(t, err)
	plan, err = all[0].plan(t.Context())
	require.NoError(t, err)
	assert.Empty(t, plan.Steps)
}

func TestWhatCannotBeResizedIsRefused(t *testing.T) {
	set := func(change func(*appsv1.StatefulSet)) func([]runtime.Object) {
		return func(all []runtime.Object) { change(all[0].(*appsv1.StatefulSet)) }
	}
	for want, change := range map[string]func([]runtime.Object){
		"it is of an earlier chart":   set(func(s *appsv1.StatefulSet) { s.Spec.Selector.MatchExpressions = nil }),
		"a restore has not finished":  set(func(s *appsv1.StatefulSet) { s.Annotations[annotationRestore] = "x" }),
		"it keeps no data in volumes": set(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil }),
		"the release still has etcd.restore": set(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "restore"}}
		}),
		"lacks the name tripod-etcd-1.tripod-etcd.a.svc": func(all []runtime.Object) { *all[1].(*corev1.Secret) = *serverCertificate(t, 1) },
	} {
		t.Run(want, func(t *testing.T) {
			c := newCluster(t, 1, true, change)
			refused(t, c, c.options(3), want)
		})
	}
	c := newCluster(t, 1, true)
	for want, change := range map[string]func(*Options){
		"--members is 2: an etcd of the chart can have 1, 3 or 5": func(o *Options) { o.Members = 2 },
		"--members is 7": func(o *Options) { o.Members = 7 },
		"--members is 0": func(o *Options) { o.Members = 0 },
		"runs no etcd: change the members of your own etcd with its own tools": func(o *Options) { o.Release = "other" },
		`has no etcd etcd-extensions of its own (it has ["etcd"])`:             func(o *Options) { o.Etcd = "etcd-extensions" },
	} {
		o := c.options(3)
		change(&o)
		refused(t, c, o, want)
	}
	c.put(claimsResource, &corev1.PersistentVolumeClaim{ObjectMeta: meta("data-tripod-etcd-2")})
	refused(t, c, c.options(3), "the PersistentVolumeClaim data-tripod-etcd-2 is of an earlier member")
}

// refused expects that a resize is refused in one line, and changes nothing.
func refused(t *testing.T, c *cluster, o Options, want string) {
	t.Helper()
	c.client.ClearActions()
	err := c.resize(t.Context(), o)
	require.ErrorContains(t, err, want)
	assert.NotContains(t, err.Error(), "\n")
	for _, action := range c.client.Actions() {
		assert.False(t, changes(action), "%s %s", action.GetVerb(), action.GetResource().Resource)
	}
}

func TestAnEtcdThatIsNotHealthyIsRefused(t *testing.T) {
	c := newCluster(t, 3, true)
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	list, err := c.connect(0).MemberList(t.Context())
	require.NoError(t, err)
	alarm.MemberID = list.Members[0].ID
	maintenance := pb.NewMaintenanceClient(c.connect(0).ActiveConnection())
	_, err = maintenance.Alarm(t.Context(), alarm)
	require.NoError(t, err)
	refused(t, c, c.options(5), "has the alarm NOSPACE")
	alarm.Action = pb.AlarmRequest_DEACTIVATE
	_, err = maintenance.Alarm(t.Context(), alarm)
	require.NoError(t, err)

	stop := func(ordinal int) {
		c.mu.Lock()
		p := c.pods[ordinal]
		c.mu.Unlock()
		p.stop()
		<-p.ended
	}
	stop(2)
	refused(t, c, c.options(1), "member tripod-etcd-2 is not healthy")
	stop(1)
	refused(t, c, c.options(5), "it may have no quorum")
	stop(0)
	refused(t, c, c.options(5), `pods "tripod-etcd-0" not found`)
}

func TestAMemberThatLosesItsVolumeStaysOut(t *testing.T) {
	c := newCluster(t, 1, false)
	require.NoError(t, c.resize(t.Context(), c.options(3)))
	c.mu.Lock()
	lost := c.pods[2]
	c.mu.Unlock()
	lost.stop()
	<-lost.ended
	config := c.config(2)
	config.Dir = t.TempDir()
	server, err := embed.StartEtcd(config)
	if err == nil {
		server.Close()
	}
	assert.ErrorContains(t, err, "member count is unequal")
}

func TestKeptVolumesStay(t *testing.T) {
	c := newCluster(t, 3, false)
	o := c.options(1)
	o.KeepVolumes = true
	require.NoError(t, c.resize(t.Context(), o))
	for i := range 3 {
		assert.True(t, c.hasClaim(i))
	}
	refused(t, c, c.options(3), "the PersistentVolumeClaim data-tripod-etcd-1 is of an earlier member")
}

func TestOneCommandResizesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := []string{}
		client := fake.NewClientset()
		o := Options{Client: client, Namespace: "a", Release: "tripod", Progress: func(line string) { lines = append(lines, line) }}
		first, second := newResizer(o, "etcd", setName), newResizer(o, "etcd", setName)
		release, held := make(chan struct{}), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- first.locked(t.Context(), func(context.Context) error {
				close(held)
				<-release
				return errors.New("as it ended")
			})
		}()
		<-held
		err := second.locked(t.Context(), func(context.Context) error { t.Error("both work"); return nil })
		require.ErrorIs(t, err, errHeld)
		assert.Len(t, lines, 1)
		close(release)
		require.EqualError(t, <-ended, "as it ended")
		require.NoError(t, second.locked(t.Context(), func(context.Context) error { return nil }), "the Lease is free again")

		// A command that was killed leaves a Lease.
		lease := metav1.NewMicroTime(time.Now())
		_, err = o.Client.CoordinationV1().Leases("a").Create(t.Context(), leaseOf("killed", lease), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, second.locked(t.Context(), func(context.Context) error { return nil }))

		// A command that cannot keep its Lease stops: another one may have taken it.
		err = first.locked(t.Context(), func(ctx context.Context) error {
			client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("taken")
			})
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, errLost)
	})
}

func leaseOf(holder string, renewed metav1.MicroTime) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: setName + "-resize"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](15), AcquireTime: &renewed, RenewTime: &renewed,
	}}
}
