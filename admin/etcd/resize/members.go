// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// grow adds members until there are enough.
func (r *resizer) grow(ctx context.Context, client *clientv3.Client) error {
	for {
		s, err := r.state(ctx, client)
		if err != nil {
			return err
		}
		learner := s.learner()
		if learner == nil {
			if err := r.scaleDown(ctx, len(s.members)); err != nil { // pods of members that are no longer in etcd
				return err
			}
			if len(s.members) >= r.Members {
				return nil
			}
			if learner, err = r.add(ctx, client, len(s.members)); err != nil {
				return err
			}
		}
		if err := r.start(ctx, client, learner); err != nil {
			return err
		}
	}
}

// add adds a member without a vote to etcd.
func (r *resizer) add(ctx context.Context, client *clientv3.Client, ordinal int) (learner *pb.Member, err error) {
	if err := r.checkClaim(ctx, ordinal); err != nil {
		return nil, err
	}
	if err := r.awaitHealthy(ctx, client); err != nil {
		return nil, err
	}
	r.Progress("adding " + r.member(ordinal) + " to etcd, without a vote")
	err = r.ask(ctx, "etcd accepts another member", func(ctx context.Context) error {
		answer, err := client.MemberAddAsLearner(ctx, []string{r.peerURL(ordinal)})
		switch {
		case err == nil:
			learner = answer.Member
		case errors.Is(err, rpctypes.ErrPeerURLExist): // the answer to the first request was lost
			s, err := r.state(ctx, client)
			if err != nil {
				return err
			}
			if learner = s.learner(); learner == nil {
				return lasting{fmt.Errorf("%s is in etcd already", r.member(ordinal))}
			}
		default:
			return err
		}
		return nil
	})
	return learner, err
}

// start starts the pod of a learner, and gives it a vote when it has all data.
func (r *resizer) start(ctx context.Context, client *clientv3.Client, learner *pb.Member) error {
	ordinal := r.ordinal(learner)
	if err := r.record(ctx, ordinal+1); err != nil {
		return err
	}
	r.Progress("starting " + r.member(ordinal))
	if err := r.scale(ctx, ordinal+1); err != nil {
		return err
	}
	err := r.poll(ctx, memberTimeout, r.member(ordinal)+" has all data", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		_, err := client.MemberPromote(ctx, learner.ID)
		switch {
		case err == nil, errors.Is(err, rpctypes.ErrMemberNotLearner):
			return true, nil
		case errors.Is(err, rpctypes.ErrMemberNotFound):
			return false, lasting{fmt.Errorf("%s was removed from etcd meanwhile", r.member(ordinal))}
		}
		if waiting := r.checkPod(ctx, ordinal); waiting != nil {
			err = fmt.Errorf("%w; %w", err, waiting)
		}
		return false, err
	})
	if err != nil {
		return err
	}
	r.Progress(r.member(ordinal) + " has all data and a vote")
	return r.awaitHealthy(ctx, client)
}

// shrink removes members until there are few enough, the last one first. Their pods stop only then, because that can take minutes. Of an
// even number of members, no more may fail than of one less.
func (r *resizer) shrink(ctx context.Context, client *clientv3.Client) error {
	s, err := r.state(ctx, client)
	if err != nil {
		return err
	}
	for n := len(s.members); n > r.Members; n-- {
		if err := r.remove(ctx, client, s.members[:n]); err != nil {
			return err
		}
		if err := r.record(ctx, n-1); err != nil {
			return err
		}
	}
	return r.scaleDown(ctx, r.Members)
}

// remove removes the last of the members from etcd.
func (r *resizer) remove(ctx context.Context, client *clientv3.Client, members []*pb.Member) error {
	last := members[len(members)-1]
	name := r.member(len(members) - 1)
	if err := r.awaitHealthy(ctx, client); err != nil {
		return err
	}
	if err := r.moveLeader(ctx, client, members); err != nil {
		return err
	}
	r.Progress("removing " + name + " from etcd")
	return r.ask(ctx, "etcd removes "+name, func(ctx context.Context) error {
		_, err := client.MemberRemove(ctx, last.ID)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			return nil
		}
		return err
	})
}

// moveLeader makes the first member the leader if one leads that is to go, also if others go before it.
func (r *resizer) moveLeader(ctx context.Context, client *clientv3.Client, members []*pb.Member) error {
	return r.ask(ctx, "a member that stays leads", func(ctx context.Context) error {
		status, err := client.Status(ctx, r.clientURL(0))
		if err != nil {
			return err
		}
		ordinal := slices.IndexFunc(members, func(m *pb.Member) bool { return m.ID == status.Leader })
		if ordinal < 0 {
			return errors.New("etcd has no leader")
		}
		if ordinal < r.Members {
			return nil
		}
		r.Progress("making " + r.member(0) + " the leader")
		leader, err := r.connect(ctx, r.clientURL(ordinal))
		if err != nil {
			return err
		}
		defer leader.Close() //nolint:errcheck // nothing is pending
		_, err = leader.MoveLeader(ctx, members[0].ID)
		return err
	})
}

// ask repeats a request to etcd until it succeeds: after a change, etcd refuses the next one for some seconds.
func (r *resizer) ask(ctx context.Context, what string, request func(context.Context) error) error {
	return r.poll(ctx, healthTimeout, what, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		err := request(ctx)
		return err == nil, err
	})
}

// scale changes the number of pods.
func (r *resizer) scale(ctx context.Context, replicas int) error {
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": replicas}})
	if err != nil {
		return err
	}
	before, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set, metav1.GetOptions{})
	if err != nil || ptr.Deref(before.Spec.Replicas, 1) == int32(replicas) {
		return err
	}
	if err := r.patchSet(ctx, types.MergePatchType, data); err != nil {
		return fmt.Errorf("cannot scale %s: %w", r.set, err)
	}
	return r.restoreManagers(ctx, before.ManagedFields, r.patchSet)
}

// scaleDown stops the pods of members that are no longer in etcd, and deletes their volumes, the last one first.
func (r *resizer) scaleDown(ctx context.Context, members int) error {
	if err := r.record(ctx, members); err != nil {
		return err
	}
	set, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if int(ptr.Deref(set.Spec.Replicas, 1)) > members {
		if err := r.scale(ctx, members); err != nil {
			return err
		}
	}
	// An earlier command may have ended before it could delete a volume.
	for ordinal := r.from - 1; ordinal >= members; ordinal-- {
		if err := r.clear(ctx, ordinal); err != nil {
			return err
		}
	}
	return nil
}

// clear returns when the pod of a former member is gone, and its volume, unless that is to stay.
func (r *resizer) clear(ctx context.Context, ordinal int) error {
	name := r.member(ordinal)
	err := r.poll(ctx, stopTimeout, name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := r.Client.CoreV1().Pods(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	if err != nil || r.KeepVolumes {
		return err
	}
	claims := r.Client.CoreV1().PersistentVolumeClaims(r.Namespace)
	err = claims.Delete(ctx, r.claim(ordinal), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot delete the volume of %s: %w", name, err)
	}
	r.Progress(fmt.Sprintf("deleting the volume of %s, the PersistentVolumeClaim %s", name, r.claim(ordinal)))
	return r.poll(ctx, stopTimeout, "the PersistentVolumeClaim "+r.claim(ordinal)+" is gone", func(ctx context.Context) (bool, error) {
		_, err := claims.Get(ctx, r.claim(ordinal), metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}
