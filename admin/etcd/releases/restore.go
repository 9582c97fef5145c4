// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package releases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	// Checked is what the check of the snapshot said.
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
	plan.Checked, err = r.checkSnapshot(ctx)
	return plan, err
}

// Restore restores the etcd and returns when everything serves again.
func Restore(ctx context.Context, o Options) error {
	r, err := find(ctx, o)
	if err != nil {
		return err
	}
	o.Progress("checking " + r.location)
	if _, err := r.checkSnapshot(ctx); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.stop(ctx); err != nil {
		return r.unfinished(err)
	}
	for _, member := range r.members() {
		o.Progress("checking the data of " + member)
		if _, err := r.runMember(ctx, member, true); err != nil {
			return r.giveUp(ctx, err)
		}
	}
	for _, member := range r.members() {
		o.Progress("restoring " + member)
		said, err := r.runMember(ctx, member, false)
		if err != nil {
			return r.unfinished(err)
		}
		if said != "" {
			o.Progress(said)
		}
	}
	if err := r.start(ctx); err != nil {
		return r.unfinished(err)
	}
	// Services write again: another restore would undo that.
	if err := r.awaitDeployments(ctx); err != nil {
		return fmt.Errorf("%s is restored and runs; do not run this again; %w", r.set.Name, err)
	}
	return nil
}

// giveUp starts everything with the old data, also if the context has ended.
func (r *restoration) giveUp(ctx context.Context, why error) error {
	if r.continued {
		return r.unfinished(why)
	}
	r.Progress("nothing was replaced: starting with the old data")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if err := r.start(ctx); err != nil {
		return r.unfinished(errors.Join(why, err))
	}
	if err := r.awaitDeployments(ctx); err != nil {
		return fmt.Errorf("nothing was replaced, and %s runs again, but %w; the restore failed: %w", r.set.Name, err, why)
	}
	return fmt.Errorf("nothing was replaced, and the release runs again: %w", why)
}

// unfinished says how to continue.
func (r *restoration) unfinished(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	return fmt.Errorf("%s is stopped and not restored yet; the same command continues: %s", r.set.Name, text)
}

// begin names the restore, unless it continues an earlier one.
func (r *restoration) begin(ctx context.Context) error {
	r.mark = r.set.Annotations[annotationRestore]
	r.continued = r.mark != ""
	name := r.location + "@"
	switch {
	case !r.continued:
		r.mark = name + time.Now().UTC().Format(time.RFC3339Nano)
	case !strings.HasPrefix(r.mark, name):
		return fmt.Errorf("a restore of %s from %s is not finished: first continue that one", r.set.Name, r.mark[:max(0, strings.LastIndex(r.mark, "@"))])
	default:
		r.Progress("continuing an earlier restore")
	}
	return nil
}
