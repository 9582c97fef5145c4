// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package releases

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// Options say what to restore.
type Options struct {
	Client             kubernetes.Interface
	Namespace, Release string
	// Etcd is which etcd of the release, such as etcd or etcd-extensions.
	Etcd string
	// Snapshot is the name of a snapshot that the release has saved, or s3://BUCKET/KEY.
	Snapshot string
	// OtherCluster replaces the data also if the snapshot is of another etcd.
	OtherCluster bool
	// BumpRevision is what to add to the revision of the snapshot. 0 means 1,000,000,000 more than all earlier restores together.
	BumpRevision uint64
	// Progress gets a line about each step.
	Progress func(line string)
}

// Plan is what a restore does.
type Plan struct {
	Etcd     string `json:"etcd"`
	Snapshot string `json:"snapshot"`
	// Members are the pods of etcd whose data is replaced. The old data stays in their volumes.
	Members []string `json:"members"`
	// Stops are the Deployments that use the etcd. They stop before it, and start after it.
	Stops []Stopped `json:"stops"`
	// Checked is the output of the check of the snapshot.
	Checked string `json:"checked"`
}

// Stopped is a Deployment with its number of replicas.
type Stopped struct {
	Name     string `json:"name"`
	Replicas int32  `json:"replicas"`
}

// DryRun checks the snapshot, and returns what [Restore] would do. It creates one Job, which it removes again.
func DryRun(ctx context.Context, o Options) (*Plan, error) {
	r, err := find(ctx, o)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Etcd: r.set.Name, Snapshot: r.location, Members: r.members()}
	for _, d := range r.deployments {
		plan.Stops = append(plan.Stops, Stopped{Name: d.Name, Replicas: replicasOf(&d.ObjectMeta, d.Spec.Replicas)})
	}
	if err := r.begin(); err != nil { // it writes nothing
		return nil, err
	}
	if err := r.checkRights(ctx); err != nil {
		return nil, err
	}
	plan.Checked, err = r.checkSnapshot(ctx)
	return plan, err
}

// Restore restores the etcd and returns when everything serves again.
func Restore(ctx context.Context, o Options) error {
	first, err := find(ctx, o)
	if err != nil {
		return err
	}
	if first.phase == phaseNone || first.phase == phaseStopping || first.phase == phaseRestoring {
		o.Progress("checking " + first.location)
		if _, err := first.checkSnapshot(ctx); err != nil {
			return err
		}
	}
	r, err := find(ctx, o) // the check may have taken long
	if err != nil {
		return err
	}
	if r.owner != first.owner {
		return r.goingOn()
	}
	r.hash = first.hash
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.checkRights(ctx); err != nil {
		return err
	}
	if err := r.claim(ctx); err != nil {
		return err
	}
	return r.goOn(ctx)
}

// goOn does what the phase has left to do.
func (r *restoration) goOn(ctx context.Context) error {
	if r.phase == phaseReturning {
		return r.giveUp(ctx, errors.New("an earlier command gave up: run this again to restore"))
	}
	if r.phase == phaseStopping || r.phase == phaseRestoring {
		if err := r.stop(ctx); err != nil {
			return r.giveUp(ctx, err)
		}
	}
	if r.phase == phaseStopping {
		if err := r.checkMembers(ctx); err != nil {
			return r.giveUp(ctx, err)
		}
	}
	if r.phase == phaseRestoring {
		if err := r.restoreMembers(ctx); err != nil {
			return r.unfinished(err)
		}
	}
	if err := r.start(ctx, phaseStarting); err != nil {
		return r.unfinished(err)
	}
	// Services write again: another restore would undo that.
	err := r.end(ctx)
	if err == nil {
		err = r.awaitDeployments(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s is restored and runs; do not run this again; %w", r.set.Name, err)
	}
	return nil
}

// checkMembers checks the data of each member, so that the first one is replaced only if all can be.
func (r *restoration) checkMembers(ctx context.Context) error {
	for _, member := range r.members() {
		r.Progress("checking the data of " + member)
		if _, err := r.runMember(ctx, member, true); err != nil {
			return err
		}
	}
	return r.enterRestoring(ctx)
}

func (r *restoration) restoreMembers(ctx context.Context) error {
	for _, member := range r.members() {
		if err := r.checkUntouched(ctx); err != nil {
			return err
		}
		r.Progress("restoring " + member)
		printed, err := r.runMember(ctx, member, false)
		if err != nil {
			return err
		}
		if printed != "" {
			r.Progress(printed)
		}
	}
	return nil
}

// giveUp starts everything with the old data, also if the context has ended.
func (r *restoration) giveUp(ctx context.Context, why error) error {
	if errors.As(why, &overtaken{}) {
		return why
	}
	if r.phase == phaseRestoring {
		return r.unfinished(why)
	}
	r.Progress("nothing was replaced: starting with the old data")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*startTimeout)
	defer cancel()
	if err := r.start(ctx, phaseReturning); err != nil {
		return r.unfinished(errors.Join(why, err))
	}
	err := r.end(ctx)
	if err == nil {
		err = r.awaitDeployments(ctx)
	}
	if err != nil {
		return fmt.Errorf("nothing was replaced, and %s runs again, but %w; the restore failed: %w", r.set.Name, err, why)
	}
	return fmt.Errorf("nothing was replaced, and the release runs again: %w", why)
}

// unfinished says how to continue.
func (r *restoration) unfinished(err error) error {
	if of := (overtaken{}); errors.As(err, &of) {
		return of
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch r.phase {
	case phaseStarting:
		return fmt.Errorf("%s is restored and does not serve yet; the same command continues, and restores nothing again: %s", r.set.Name, text)
	case phaseReturning:
		return fmt.Errorf("%s keeps the old data and does not serve yet; the same command starts it: %s", r.set.Name, text)
	}
	return fmt.Errorf("%s is stopped and not restored yet; the same command continues: %s", r.set.Name, text)
}
