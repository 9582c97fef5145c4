// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

var setsResource = appsv1.SchemeGroupVersion.WithResource("statefulsets")

// forbid makes the API server refuse a verb on StatefulSets while refuses returns true.
func (c *cluster) forbid(verb string, refuses func() bool) {
	c.client.PrependReactor(verb, "statefulsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !refuses() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(setsResource.GroupResource(), setName, errors.New("no right to "+verb))
	})
}

// set returns the StatefulSet that is there.
func (c *cluster) set() *appsv1.StatefulSet {
	c.t.Helper()
	set, err := c.client.AppsV1().StatefulSets("a").Get(c.t.Context(), setName, metav1.GetOptions{})
	require.NoError(c.t, err)
	return set
}

// orphan deletes the StatefulSet as `kubectl delete --cascade=orphan` does: its pods go on, and what it owned has no owner.
func (c *cluster) orphan() {
	c.t.Helper()
	require.NoError(c.t, c.client.Tracker().Delete(setsResource, "a", setName))
	maps := c.client.CoreV1().ConfigMaps("a")
	record, err := maps.Get(c.t.Context(), setName+recordSuffix, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	require.NoError(c.t, err)
	record.OwnerReferences = nil
	_, err = maps.Update(c.t.Context(), record, metav1.UpdateOptions{})
	require.NoError(c.t, err)
}

// TestAStatefulSetThatCannotBeMadeAnewStays tries a user who may delete a StatefulSet and not create one, and the reverse.
func TestAStatefulSetThatCannotBeMadeAnewStays(t *testing.T) {
	for _, verb := range []string{"create", "delete"} {
		t.Run(verb, func(t *testing.T) {
			c := newCluster(t, 1, false)
			c.forbid(verb, func() bool { return true })
			refused(t, c, c.options(3), "which the API server does not accept: statefulsets.apps \"tripod-etcd\" is forbidden: no right to "+verb)
			all, err := c.find(t.Context(), c.options(3))
			require.NoError(t, err)
			_, err = all[0].plan(t.Context())
			require.ErrorContains(t, err, "no right to "+verb)
			require.NoError(t, c.resize(t.Context(), c.options(1)), "the number is the same")
		})
	}
}

// TestAQuotaThatIsInTheWayIsNamed tries a quota of StatefulSets, and one of pods.
func TestAQuotaThatIsInTheWayIsNamed(t *testing.T) {
	const exceeded = "exceeded quota: compute, requested: %[1]s=1, used: %[1]s=1, limited: %[1]s=1"
	sets := fmt.Sprintf(exceeded, "count/statefulsets.apps")
	c := newCluster(t, 1, false)
	c.client.PrependReactor("create", "statefulsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(setsResource.GroupResource(), setName, errors.New(sets))
	})
	refused(t, c, c.options(3), "another number of members needs a second StatefulSet for a moment, and the ResourceQuota compute has no room for it "+
		"(requested: count/statefulsets.apps=1, used: count/statefulsets.apps=1, limited: count/statefulsets.apps=1): raise it until the resize has ended")

	all, err := c.find(t.Context(), c.options(3))
	require.NoError(t, err)
	require.EqualError(t, all[0].checkPod(t.Context(), 1), `cannot get the pod of a member: pods "tripod-etcd-1" not found`)
	event := func(name string, at time.Time, message string) {
		require.NoError(t, c.client.Tracker().Add(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Reason: "FailedCreate", LastTimestamp: metav1.NewTime(at),
			InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Name: setName}, Message: message,
		}))
	}
	now := time.Now()
	event("a", now, "create Pod tripod-etcd-1 in StatefulSet tripod-etcd failed error: pods \"tripod-etcd-1\" is forbidden: "+fmt.Sprintf(exceeded, "pods"))
	event("b", now.Add(-time.Hour), "of another reason")
	require.EqualError(t, all[0].checkPod(t.Context(), 1),
		"the pod tripod-etcd-1 is missing: the ResourceQuota compute has no room for it (requested: pods=1, used: pods=1, limited: pods=1)")
	event("c", now.Add(time.Hour), "of another reason")
	require.ErrorContains(t, all[0].checkPod(t.Context(), 1), "not found", "the quota is no longer the reason")
}

// TestARightThatEndsMeanwhileLosesNoStatefulSet takes the right away after the first look at it.
func TestARightThatEndsMeanwhileLosesNoStatefulSet(t *testing.T) {
	c := newCluster(t, 3, false)
	tries, ended := 0, true
	c.forbid("create", func() bool { tries++; return ended && tries > 1 })
	err := c.resize(t.Context(), c.options(1))
	require.ErrorContains(t, err, "no right to create")
	require.ErrorContains(t, err, "the same command continues")
	assert.EqualValues(t, "first", c.set().UID)
	ended = false
	require.NoError(t, c.resize(t.Context(), c.options(1)))
	c.check(1)
}

// TestMembersLeaveWithoutWaitingForPods looks at etcd before the first pod stops. As long as two members vote, none may fail.
func TestMembersLeaveWithoutWaitingForPods(t *testing.T) {
	c := newCluster(t, 3, true)
	w := c.write()
	c.lead(1)
	var atFirst int
	c.client.PrependReactor("patch", "statefulsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		list, err := w.client.MemberList(context.Background())
		if assert.NoError(t, err) && atFirst == 0 {
			atFirst = len(list.Members)
		}
		return false, nil, nil
	})
	var lines []string
	o := c.options(1)
	o.Progress = func(line string) { c.say(line); lines = append(lines, line) }
	require.NoError(t, c.resize(t.Context(), o))
	assert.Equal(t, 1, atFirst, "members of etcd when pods begin to stop")
	require.Contains(t, lines, "making tripod-etcd-0 the leader")
	assert.Less(t, slices.Index(lines, "making tripod-etcd-0 the leader"), slices.Index(lines, "removing tripod-etcd-2 from etcd"),
		"of two members, none has to hand over")
	c.check(1)
	c.checkKept(w, 1)
}

// TestAResizeMakesAStatefulSetAgainThatIsMissing deletes the StatefulSet of a resize that was interrupted when etcd had two members.
func TestAResizeMakesAStatefulSetAgainThatIsMissing(t *testing.T) {
	for _, members := range []int{3, 1} {
		c := newCluster(t, 1, false)
		w := c.write()
		ctx, cancel := context.WithCancel(t.Context())
		o := c.options(3)
		o.Progress = func(line string) {
			if c.say(line); line == "tripod-etcd-1 has all data and a vote" {
				cancel()
			}
		}
		require.ErrorIs(t, c.resize(ctx, o), context.Canceled)
		c.orphan()
		c.await("the new member answers", func() bool { return c.isReady(1) })
		require.NoError(t, c.resize(t.Context(), c.options(members)))
		c.check(members)
		c.checkKept(w, members)
		c.mu.Lock()
		assert.Equal(t, 1, c.started[0], "the first member has started again")
		if members == 3 {
			assert.Equal(t, 1, c.started[1], "the StatefulSet came back with fewer pods than members")
		}
		c.mu.Unlock()
	}
}

// TestAMissingStatefulSetIsNamed deletes the StatefulSet of an etcd that is not being resized. Only Helm knows how to make that again.
func TestAMissingStatefulSetIsNamed(t *testing.T) {
	c := newCluster(t, 1, false)
	before := c.set()
	c.orphan()
	refused(t, c, c.options(3), "the StatefulSet of the pod tripod-etcd-0 is missing: `helm upgrade`")
	require.NoError(t, c.client.Tracker().Add(before))

	require.NoError(t, c.resize(t.Context(), c.options(3)))
	before = c.set()
	c.orphan()
	const want = "the StatefulSet tripod-etcd is missing: `helm upgrade` with etcd.replicas=3 makes it again, beside its 3 pods"
	refused(t, c, c.options(1), want)
	o := c.options(3)
	o.Etcd = "etcd-extensions"
	refused(t, c, o, "the release tripod in the namespace a runs no etcd")

	before.UID = "of helm"
	require.NoError(t, c.client.Tracker().Add(before))
	all, err := c.find(t.Context(), c.options(3))
	require.NoError(t, err)
	plan, err := all[0].plan(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"the ConfigMap tripod-etcd-resized would be removed with its StatefulSet again"}, plan.Steps)
	require.NoError(t, c.resize(t.Context(), c.options(3)))
	c.check(3)
}

// TestNoResizeBeginsDuringARollout tries one that has not begun, and one that was interrupted, which waits.
func TestNoResizeBeginsDuringARollout(t *testing.T) {
	c := newCluster(t, 3, false)
	c.rolls.Store(2)
	refused(t, c, c.options(1),
		"a rollout of the StatefulSet tripod-etcd is under way, which has updated 1 of 3 pods: wait until it has ended")
	c.rolls.Store(0)

	ctx, cancel := context.WithCancel(t.Context())
	o := c.options(1)
	o.Progress = func(line string) {
		if c.say(line); line == "removing tripod-etcd-2 from etcd" {
			cancel()
		}
	}
	require.Error(t, c.resize(ctx, o))
	c.rolls.Store(1)
	looks, changed := 0, 0
	c.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch {
		case action.GetVerb() == "get" && action.GetResource() == setsResource:
			if looks++; looks == 5 {
				c.rolls.Store(0)
			}
		case changes(action) && looks < 5:
			changed++
		}
		return false, nil, nil
	})
	require.NoError(t, c.resize(t.Context(), c.options(1)))
	assert.Zero(t, changed, "changes during the rollout")
	c.check(1)
}

// TestRolloutsAreRecognized tries the fields of the status one by one.
func TestRolloutsAreRecognized(t *testing.T) {
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"no controller has seen the change":      func(s *appsv1.StatefulSet) { s.Generation = 3 },
		"not all pods are new":                   func(s *appsv1.StatefulSet) { s.Status.UpdatedReplicas = 2 },
		"all pods are new, and not ready so far": func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "b" },
	} {
		set := stateful(3)
		set.Generation = 2
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, CurrentRevision: "a", UpdateRevision: "a",
		}
		require.NoError(t, rollout(set))
		change(set)
		assert.Error(t, rollout(set), name)
	}
}
