// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/admin/etcd/maintenance"
)

// state is how far an etcd is.
type state struct {
	set *appsv1.StatefulSet
	// replicas is the number of pods that the StatefulSet is to have.
	replicas int
	// members are those of etcd, by their ordinals.
	members []*pb.Member
	// unfinished says that an earlier command has not finished.
	unfinished bool
	// untied says that the record would outlive the StatefulSet.
	untied bool
}

// learner returns the member that has no vote yet, or nil. It is the last one.
func (s *state) learner() *pb.Member {
	if last := s.members[len(s.members)-1]; last.IsLearner {
		return last
	}
	return nil
}

// done reports whether nothing is left to do.
func (r *resizer) done(s *state) bool {
	return !s.unfinished && s.learner() == nil && len(s.members) == r.Members && s.replicas == r.Members && declared(s.set) == r.Members
}

// check returns a client and the state of an etcd that can be resized. Until it returns, nothing has changed.
func (r *resizer) check(ctx context.Context) (*clientv3.Client, *state, error) {
	set, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	if err := r.checkSet(ctx, set); err != nil {
		return nil, nil, err
	}
	if err := rollout(set); err != nil {
		return nil, nil, fmt.Errorf("%w: wait until it has ended (kubectl rollout status statefulset/%s)", err, r.set)
	}
	if err := r.checkPod(ctx, 0); err != nil {
		return nil, nil, err
	}
	// The first member is never removed, and never a learner.
	client, err := r.connect(ctx, r.clientURL(0))
	if err != nil {
		return nil, nil, err
	}
	s, err := r.state(ctx, client)
	if err == nil {
		err = r.checkMembers(ctx, client)
	}
	if err == nil && !s.unfinished {
		err = r.checkNew(ctx, len(s.members))
	}
	if err == nil && declared(s.set) != r.Members {
		err = r.mayRecreate(ctx, s.set)
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return client, s, nil
}

// rollout returns an error while pods of a StatefulSet are being replaced. A member that goes or comes at that time may be one too many.
func rollout(set *appsv1.StatefulSet) error {
	is := set.Status
	if is.ObservedGeneration < set.Generation || is.UpdateRevision != is.CurrentRevision || is.UpdatedReplicas < is.Replicas {
		return fmt.Errorf("a rollout of the StatefulSet %s is under way, which has updated %d of %d pods",
			set.Name, is.UpdatedReplicas, is.Replicas)
	}
	return nil
}

// awaitOwnRollout returns when no pod of etcd is being replaced, if an earlier command has not finished. It may have scaled a moment ago.
func (r *resizer) awaitOwnRollout(ctx context.Context) error {
	if unfinished, err := Unfinished(ctx, r.Client, r.Namespace, r.set); err != nil || !unfinished {
		return err
	}
	return r.poll(ctx, startTimeout, "all pods of "+r.set+" are of one version", func(ctx context.Context) (bool, error) {
		set, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set, metav1.GetOptions{})
		if err == nil {
			err = rollout(set)
		}
		return err == nil, err
	})
}

// checkNew refuses volumes of members that are yet to come.
func (r *resizer) checkNew(ctx context.Context, members int) error {
	for i := members; i < r.Members; i++ {
		if err := r.checkClaim(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *resizer) checkPod(ctx context.Context, ordinal int) error {
	pod, err := r.Client.CoreV1().Pods(r.Namespace).Get(ctx, r.member(ordinal), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if quota := r.checkQuota(ctx); quota != nil {
			return fmt.Errorf("the pod %s is missing: %w", r.member(ordinal), quota)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot get the pod of a member: %w", err)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the pod %s is not ready", pod.Name)
}

// state asks the cluster and etcd.
func (r *resizer) state(ctx context.Context, client *clientv3.Client) (*state, error) {
	set, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if set.Annotations[annotationRestore] != "" {
		return nil, errRestore
	}
	s := &state{set: set, replicas: int(ptr.Deref(set.Spec.Replicas, 1))}
	record, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, r.set+recordSuffix, metav1.GetOptions{})
	switch {
	case err == nil:
		s.unfinished, s.untied = record.Annotations[annotationTo] != "", !isOwnedBy(record, set)
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcd does not list its members, so it may have no quorum: %w", err)
	}
	s.members = make([]*pb.Member, len(list.Members))
	for _, member := range list.Members {
		ordinal := r.ordinal(member)
		switch {
		case ordinal < 0:
			return nil, fmt.Errorf("the member %s of etcd at %s is not of the release: remove it first",
				member.Name, strings.Join(member.PeerURLs, ","))
		case ordinal >= len(s.members) || s.members[ordinal] != nil:
			return nil, fmt.Errorf("etcd has a member %s, and not all before it: remove it from etcd first", r.member(ordinal))
		case member.IsLearner && ordinal != len(s.members)-1:
			return nil, fmt.Errorf("the member %s of etcd has no vote: promote it first", r.member(ordinal))
		}
		s.members[ordinal] = member
	}
	return s, nil
}

// ordinal returns the number of a member, or -1.
func (r *resizer) ordinal(member *pb.Member) int {
	for i := range maxMembers {
		if slices.Contains(member.PeerURLs, r.peerURL(i)) {
			return i
		}
	}
	return -1
}

// checkMembers returns an error unless all members that vote are healthy and have no alarm.
func (r *resizer) checkMembers(ctx context.Context, client *clientv3.Client) error {
	members, err := maintenance.Status(ctx, client, nil)
	if err != nil {
		return err
	}
	voters := slices.DeleteFunc(members, func(m maintenance.Member) bool { return m.Learner })
	if err := maintenance.Problems(voters); err != nil {
		return err
	}
	for _, m := range voters {
		if len(m.Alarms) > 0 {
			return fmt.Errorf("member %s has the alarm %s: see `tripod etcd defrag`, or repair it first", m.Name, strings.Join(m.Alarms, ","))
		}
	}
	return nil
}

// awaitHealthy returns when all members that vote are healthy.
func (r *resizer) awaitHealthy(ctx context.Context, client *clientv3.Client) error {
	return r.poll(ctx, healthTimeout, "all members are healthy", func(ctx context.Context) (bool, error) {
		err := r.checkMembers(ctx, client)
		return err == nil, err
	})
}

// plan returns the steps from the present state on.
func (r *resizer) plan(ctx context.Context) (*Plan, error) {
	client, s, err := r.check(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // nothing is pending
	p := &Plan{Etcd: r.etcd, Members: len(s.members), Target: r.Members, Steps: []string{}}
	if r.done(s) {
		if s.untied {
			p.Steps = append(p.Steps, fmt.Sprintf("the ConfigMap %s would be removed with its StatefulSet again", r.set+recordSuffix))
		}
		return p, nil
	}
	for i := len(s.members); i < r.Members; i++ {
		p.Steps = append(p.Steps, r.member(i)+" would join as a learner, copy all data, and get a vote")
	}
	p.Steps = append(p.Steps, fmt.Sprintf("the services would restart one pod after the other, with %d members", r.Members))
	for i := max(s.replicas, len(s.members)) - 1; i >= r.Members; i-- {
		volume := "and its volume be deleted"
		if r.KeepVolumes || !hasVolumes(s.set) {
			volume = "and its volume stay"
		}
		p.Steps = append(p.Steps, fmt.Sprintf("%s would leave etcd and stop, %s", r.member(i), volume))
	}
	return p, nil
}
