// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package releases

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// Annotations of the StatefulSet. All but the sum go when the restore has ended.
const (
	// annotationRestore is the name of a restore that has not ended: LOCATION@BUMP@SHA256@TIME.
	annotationRestore = "tripod-k8s.io/restore"
	annotationPhase   = "tripod-k8s.io/restore-phase"
	// annotationRun names the command that does it. A command that continues takes it over.
	annotationRun = "tripod-k8s.io/restore-run"
	// annotationGeneration is the generation of the StatefulSet when the first member was to be restored. If it has another one, etcd
	// may have run since.
	annotationGeneration = "tripod-k8s.io/restore-generation"
	// annotationBumps is what all restores together have added to revisions.
	annotationBumps = "tripod-k8s.io/restore-bumps"
)

// Phases of a restore.
const (
	phaseNone = ""
	// phaseStopping ends when the first member is to be restored.
	phaseStopping  = "stopping"
	phaseRestoring = "restoring"
	// phaseStarting begins when all members are restored.
	phaseStarting = "starting"
	// phaseReturning starts with the old data.
	phaseReturning = "returning"
)

const (
	// bumpWrites is more than most clusters write between a snapshot and its restore.
	bumpWrites = 1_000_000_000
	// maxBump leaves revisions room: they have 63 bits.
	maxBump = 1_000_000 * bumpWrites
)

// read reads what the annotations say about a restore that has not ended.
func (r *restoration) read() {
	a := r.set.Annotations
	r.mark, r.phase, r.owner = a[annotationRestore], a[annotationPhase], a[annotationRun]
	switch {
	case r.mark == "":
		r.phase = phaseNone
	case r.phase == phaseNone:
		r.phase = phaseRestoring // without a generation: refused
	}
}

// begin names the restore, unless it continues an earlier one.
func (r *restoration) begin() error {
	if r.mark == "" {
		// The snapshot may be from before all earlier restores, each of which has raised the revision.
		r.bump = cmp.Or(r.BumpRevision, bumps(r.set)+bumpWrites)
		if r.bump > maxBump {
			return fmt.Errorf("earlier restores of %s have added %d to the revision: "+
				"say by --bump-revision how much those since the snapshot have added, plus %d", r.set.Name, bumps(r.set), bumpWrites)
		}
		r.mark = fmt.Sprintf("%s@%d@%s@%s", r.location, r.bump, r.hash, time.Now().UTC().Format(time.RFC3339Nano))
		r.phase = phaseStopping
		return nil
	}
	location, bump, hash, err := parseMark(r.mark)
	if err != nil || location != r.location {
		return fmt.Errorf("a restore of %s from %s is not finished: first continue that one", r.set.Name, location)
	}
	if r.BumpRevision != 0 && r.BumpRevision != bump {
		return fmt.Errorf("the restore of %s that is not finished adds %d to the revision: "+
			"continue it with the same --bump-revision", r.set.Name, bump)
	}
	if r.hash != "" && hash != "" && r.hash != hash {
		return fmt.Errorf("%s is another snapshot than the one from which %s is being restored (SHA-256 %s): "+
			"bring that one back", location, r.set.Name, hash)
	}
	r.bump, r.hash = bump, hash
	if r.phase == phaseRestoring {
		if err := r.untouched(r.set); err != nil {
			return err
		}
	}
	r.Progress("continuing an earlier restore")
	return nil
}

// bumps returns what all restores together have added to revisions.
func bumps(set *appsv1.StatefulSet) uint64 {
	sum, _ := strconv.ParseUint(set.Annotations[annotationBumps], 10, 62) // none: 0
	return sum
}

func parseMark(mark string) (location string, bump uint64, hash string, err error) {
	parts := strings.Split(mark, "@")
	n := len(parts) - 3 // a location may have the separator
	if n < 1 {
		return mark, 0, "", errors.New("not the name of a restore")
	}
	bump, err = strconv.ParseUint(parts[n], 10, 63)
	return strings.Join(parts[:n], "@"), bump, parts[n+1], err
}

// claim writes the name of the restore, unless another command does, or is at a later step.
func (r *restoration) claim(ctx context.Context) error {
	before := r.set.Annotations
	run := rand.Text()
	err := r.updateSet(ctx, func(now *appsv1.StatefulSet) (map[string]any, error) {
		for _, annotation := range []string{annotationRun, annotationRestore, annotationPhase} {
			if now.Annotations[annotation] != before[annotation] {
				return nil, r.goingOn()
			}
		}
		return annotate(map[string]any{
			annotationRestore: r.mark, annotationPhase: r.phase, annotationRun: run,
		}), nil
	})
	if err == nil {
		r.owner = run
	}
	return err
}

// enterRestoring notes that the data of members may be new from now on.
func (r *restoration) enterRestoring(ctx context.Context) error {
	err := r.updateOurs(ctx, func(now *appsv1.StatefulSet) (map[string]any, error) {
		if replicas := now.Spec.Replicas; replicas == nil || *replicas != 0 {
			return nil, fmt.Errorf("something else has scaled %s up: stop that first (GitOps, an operator)", now.Name)
		}
		return annotate(map[string]any{
			annotationPhase: phaseRestoring, annotationGeneration: strconv.FormatInt(now.Generation, 10),
			annotationBumps: strconv.FormatUint(bumps(now)+r.bump, 10),
		}), nil
	})
	if err == nil {
		r.phase = phaseRestoring
	}
	return err
}

// checkUntouched returns an error if etcd may have run since the first member was to be restored, or if another command has taken over.
func (r *restoration) checkUntouched(ctx context.Context) error {
	now, err := r.current(ctx)
	if err != nil {
		return err
	}
	return r.untouched(now)
}

// current returns the StatefulSet, or an error if another command has taken over.
func (r *restoration) current(ctx context.Context) (*appsv1.StatefulSet, error) {
	now, err := r.Client.AppsV1().StatefulSets(r.Namespace).Get(ctx, r.set.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return now, r.ours(now)
}

// untouched refuses members whose data may have gone on: this restore would take them for restored, and others would differ.
func (r *restoration) untouched(set *appsv1.StatefulSet) error {
	replicas := set.Spec.Replicas
	if replicas != nil && *replicas == 0 && set.Annotations[annotationGeneration] == strconv.FormatInt(set.Generation, 10) {
		return nil
	}
	return fmt.Errorf("something else (GitOps, a person) has scaled or changed %s during the restore, so data of its members may have "+
		"gone on: stop that, delete Jobs %s-restore-N if there are any, scale %s to its number of members, remove its annotation %s, and "+
		"restore again if its data is not right", set.Name, set.Name, set.Name, annotationRestore)
}

// overtaken is the error of a command whose restore another one continues. It asks for nothing: to run it again later would be another
// restore, and undo what services have written since.
type overtaken struct{ set string }

func (o overtaken) Error() string {
	return fmt.Sprintf("another command has taken the restore of %s over: wait until that has ended, and do not run this again", o.set)
}

// ours refuses to go on beside a command that has taken over.
func (r *restoration) ours(set *appsv1.StatefulSet) error {
	if set.Annotations[annotationRestore] != r.mark || set.Annotations[annotationRun] != r.owner {
		return overtaken{set.Name}
	}
	return nil
}

func (r *restoration) goingOn() error {
	return fmt.Errorf("another restore of %s is going on: wait until it has ended", r.set.Name)
}

func annotate(annotations map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": annotations}}
}

// updateOurs patches the StatefulSet if this command still does the restore.
func (r *restoration) updateOurs(ctx context.Context, change func(now *appsv1.StatefulSet) (map[string]any, error)) error {
	return r.updateSet(ctx, func(now *appsv1.StatefulSet) (map[string]any, error) {
		if err := r.ours(now); err != nil {
			return nil, err
		}
		return change(now)
	})
}

// updateSet patches the StatefulSet as it was read, and reads it again if it has changed since.
func (r *restoration) updateSet(ctx context.Context, change func(now *appsv1.StatefulSet) (map[string]any, error)) error {
	sets := r.Client.AppsV1().StatefulSets(r.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := sets.Get(ctx, r.set.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch, err := change(now)
		if err != nil {
			return err
		}
		patch["metadata"].(map[string]any)["resourceVersion"] = now.ResourceVersion
		data, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		_, err = sets.Patch(ctx, r.set.Name, types.MergePatchType, data, metav1.PatchOptions{})
		return err
	})
}
