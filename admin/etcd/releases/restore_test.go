// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package releases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

const (
	snapshotFile = "etcd-20261121T060500Z.db"
	located      = "s3://backups/a/tripod/" + snapshotFile
)

// cluster is one with a release of three members, whose Jobs end as the test sets. The end-to-end test has real ones.
type cluster struct {
	client *fake.Clientset
	// jobs are the arguments of the Jobs that were created, in order.
	jobs [][]string
	// fails reports whether a Job fails.
	fails func(args []string) bool
	// why is the condition of a Job that fails.
	why batchv1.JobCondition
	// meanwhile happens before a patch of the StatefulSet or a Deployment.
	meanwhile func(patch clienttesting.PatchActionImpl)
	// lost reports whether the answer to a patch of the StatefulSet is lost.
	lost func(patch clienttesting.PatchActionImpl) bool
	// notReady is set if no pod of etcd becomes ready.
	notReady bool
	// unavailable are Deployments whose pods do not become available.
	unavailable []string
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{labelPartOf: "tripod", labelRelease: "tripod"}}
}

func deployment(name string, replicas int32, args ...string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Args: args}}}},
	}}
}

func set(name string, replicas int32) *appsv1.StatefulSet {
	about := meta("tripod-" + name)
	about.ResourceVersion = "1"
	return &appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelEtcd: name}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelEtcd: name}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "etcd", Args: []string{"--initial-cluster=$(INITIAL_CLUSTER)", "--initial-cluster-token=token"}}},
		}},
	}}
}

func cronJob(name string) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: meta(name), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/component": "etcd-snapshots"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "snapshot", Image: "tripod", Args: []string{
				"etcd", "snapshot", "--directory=s3://backups/a/tripod", "--s3-endpoint=https://s3", "--name=etcd", "--keep=14",
			}}}},
		},
	}}}}
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	t.Helper()
	if objects == nil {
		objects = []runtime.Object{
			set("etcd", 3), set("etcd-extensions", 1), cronJob("tripod-etcd-snapshot"),
			deployment("tripod-core", 2, "--etcd-servers=https://tripod-etcd-0.tripod-etcd.a.svc:2379"),
			deployment("tripod-aggregator", 1, "--etcd-servers=https://tripod-etcd-0.tripod-etcd.a.svc:2379"),
			deployment("tripod-extensions", 4, "--etcd-servers=https://tripod-etcd-extensions-0.tripod-etcd-extensions.a.svc:2379"),
		}
	}
	c := &cluster{
		client: fake.NewClientset(objects...),
		fails:  func([]string) bool { return false }, meanwhile: func(clienttesting.PatchActionImpl) {},
		lost: func(clienttesting.PatchActionImpl) bool { return false },
	}
	c.client.PrependReactor("create", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
		job := action.(clienttesting.CreateAction).GetObject().(*batchv1.Job)
		args := job.Spec.Template.Spec.Containers[0].Args
		c.jobs = append(c.jobs, args)
		job.UID = types.UID(fmt.Sprint(len(c.jobs)))
		if job.Name == "" {
			job.Name = fmt.Sprintf("%s%d", job.GenerateName, len(c.jobs))
		}
		job.Status.Succeeded = 1
		if c.fails(args) {
			why := c.why
			why.Type, why.Status = batchv1.JobFailed, corev1.ConditionTrue
			job.Status = batchv1.JobStatus{Conditions: []batchv1.JobCondition{why}}
		}
		return true, job, c.client.Tracker().Create(batchv1.SchemeGroupVersion.WithResource("jobs"), job, "a")
	})
	// Pods are ready at once.
	c.client.PrependReactor("patch", "*", c.patch)
	c.client.PrependReactor("get", "statefulsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		found, err := c.client.Tracker().Get(action.GetResource(), "a", action.(clienttesting.GetAction).GetName())
		if err != nil {
			return true, nil, err
		}
		now := found.(*appsv1.StatefulSet).DeepCopy()
		now.Status.ObservedGeneration = now.Generation
		if !c.notReady {
			now.Status.ReadyReplicas = *now.Spec.Replicas
		}
		return true, now, nil
	})
	c.client.PrependReactor("get", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		found, err := c.client.Tracker().Get(action.GetResource(), "a", action.(clienttesting.GetAction).GetName())
		if err != nil {
			return true, nil, err
		}
		now := found.(*appsv1.Deployment).DeepCopy()
		if !slices.Contains(c.unavailable, now.Name) {
			now.Status.AvailableReplicas = *now.Spec.Replicas
		}
		return true, now, nil
	})
	return c
}

// patch does what the tracker does not: conflicts, dry runs and generations.
func (c *cluster) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	patch := action.(clienttesting.PatchActionImpl)
	dryRun := len(patch.PatchOptions.DryRun) > 0
	if !dryRun {
		c.meanwhile(patch)
	}
	if patch.GetResource().Resource != "statefulsets" {
		return dryRun, nil, nil
	}
	var want struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(patch.Patch, &want); err != nil {
		return true, nil, err
	}
	if version := want.Metadata.ResourceVersion; version != "" && version != c.set(patch.Name).ResourceVersion {
		return true, nil, apierrors.NewConflict(patch.GetResource().GroupResource(), patch.Name, errors.New("it has changed"))
	}
	if dryRun {
		return true, nil, nil
	}
	replicas := *c.set(patch.Name).Spec.Replicas
	if _, _, err := clienttesting.ObjectReaction(c.client.Tracker())(action); err != nil {
		return true, nil, err
	}
	after := c.change(patch.Name, func(s *appsv1.StatefulSet) {
		if *s.Spec.Replicas != replicas {
			s.Generation++
		}
	})
	if c.lost(patch) {
		return true, nil, errors.New("the answer is lost")
	}
	return true, after, nil
}

func (c *cluster) set(name string) *appsv1.StatefulSet {
	found, err := c.client.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("statefulsets"), "a", name)
	if err != nil {
		panic(err) // a bug of the test
	}
	return found.(*appsv1.StatefulSet).DeepCopy()
}

// change changes a StatefulSet, as another client does.
func (c *cluster) change(name string, do func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := c.set(name)
	do(s)
	s.ResourceVersion += "1"
	if err := c.client.Tracker().Update(appsv1.SchemeGroupVersion.WithResource("statefulsets"), s, "a"); err != nil {
		panic(err) // a bug of the test
	}
	return s
}

// scale scales it.
func (c *cluster) scale(name string, replicas int32) {
	c.change(name, func(s *appsv1.StatefulSet) { s.Spec.Replicas, s.Generation = ptr.To(replicas), s.Generation+1 })
}

func (c *cluster) options() Options {
	return Options{Client: c.client, Namespace: "a", Release: "tripod", Etcd: "etcd", Snapshot: snapshotFile, Progress: func(string) {}}
}

// steps are what the Jobs did: check, or a member with check or restore.
func (c *cluster) steps() (steps []string) {
	for _, args := range c.jobs {
		member := argument(args, "--name=")
		switch dry := slices.Contains(args, "--dry-run"); {
		case member == "":
			steps = append(steps, "check")
		case dry:
			steps = append(steps, "check "+member)
		default:
			steps = append(steps, "restore "+member)
		}
	}
	return steps
}

// replicas returns the numbers of replicas, and the annotations of this package.
func (c *cluster) replicas(t *testing.T) (replicas map[string]int32, annotations int) {
	t.Helper()
	replicas = map[string]int32{}
	// A reactor that asked the client would wait for itself.
	list := func(resource, kind string) runtime.Object {
		found, err := c.client.Tracker().List(appsv1.SchemeGroupVersion.WithResource(resource), appsv1.SchemeGroupVersion.WithKind(kind), "a")
		require.NoError(t, err)
		return found
	}
	for _, d := range list("deployments", "Deployment").(*appsv1.DeploymentList).Items {
		replicas[d.Name] = *d.Spec.Replicas
		annotations += len(d.Annotations)
	}
	for _, s := range list("statefulsets", "StatefulSet").(*appsv1.StatefulSetList).Items {
		replicas[s.Name] = *s.Spec.Replicas
		annotations += len(s.Annotations)
		if s.Annotations[annotationBumps] != "" {
			annotations-- // it stays
		}
	}
	return replicas, annotations
}

var (
	running = map[string]int32{"tripod-core": 2, "tripod-aggregator": 1, "tripod-extensions": 4, "tripod-etcd": 3, "tripod-etcd-extensions": 1}
	stopped = map[string]int32{"tripod-core": 0, "tripod-aggregator": 0, "tripod-extensions": 4, "tripod-etcd": 0, "tripod-etcd-extensions": 1}
	checks  = []string{"check", "check tripod-etcd-0", "check tripod-etcd-1", "check tripod-etcd-2"}
	all     = append(slices.Clone(checks), "restore tripod-etcd-0", "restore tripod-etcd-1", "restore tripod-etcd-2")
)

// checkRunning checks that everything runs as before.
func (c *cluster) checkRunning(t *testing.T) {
	t.Helper()
	replicas, annotations := c.replicas(t)
	assert.Equal(t, running, replicas)
	assert.Zero(t, annotations)
	jobs, err := c.client.BatchV1().Jobs("a").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, jobs.Items, "Jobs are left")
}

func TestAnEtcdOfAReleaseIsRestored(t *testing.T) {
	c := newCluster(t)
	c.fails = func(args []string) bool {
		if argument(args, "--name=") != "" {
			replicas, _ := c.replicas(t)
			assert.Equal(t, stopped, replicas, "while a Job uses the volume of a member")
		}
		return false
	}
	require.NoError(t, Restore(t.Context(), c.options()))
	assert.Equal(t, all, c.steps())
	c.checkRunning(t)
	last := c.jobs[len(c.jobs)-1]
	assert.Equal(t, []string{"etcd", "restore", located}, last[:3])
	assert.Subset(t, last, []string{"--replace", "--data-dir=/var/lib/etcd/data", "--initial-cluster-token=token",
		"--initial-cluster=tripod-etcd-0=https://tripod-etcd-0.tripod-etcd.a.svc:2380,tripod-etcd-1=https://tripod-etcd-1.tripod-etcd.a.svc:2380," +
			"tripod-etcd-2=https://tripod-etcd-2.tripod-etcd.a.svc:2380",
		"--initial-advertise-peer-urls=https://tripod-etcd-2.tripod-etcd.a.svc:2380", "--s3-endpoint=https://s3"})
	mark := argument(last, "--restore-name=")
	require.NoError(t, Restore(t.Context(), c.options()))
	assert.NotEqual(t, mark, argument(c.jobs[len(c.jobs)-1], "--restore-name="), "the same snapshot is not restored once more")
}

func TestADryRunOfAReleaseStopsNothing(t *testing.T) {
	c := newCluster(t)
	plan, err := DryRun(t.Context(), c.options())
	require.NoError(t, err)
	assert.Equal(t, &Plan{Etcd: "tripod-etcd", Snapshot: located, Members: []string{"tripod-etcd-0", "tripod-etcd-1", "tripod-etcd-2"},
		Stops: []Stopped{{"tripod-aggregator", 1}, {"tripod-core", 2}}}, plan)
	assert.Equal(t, []string{"check"}, c.steps())
	c.checkRunning(t)
}

func TestNothingStopsForASnapshotThatIsBad(t *testing.T) {
	c := newCluster(t)
	c.fails = func(args []string) bool {
		replicas, _ := c.replicas(t)
		assert.Equal(t, running, replicas)
		return true
	}
	require.ErrorContains(t, Restore(t.Context(), c.options()), "failed")
	c.checkRunning(t)
}

func TestTheOldDataServesAgainIfAMemberCannotBeRestored(t *testing.T) {
	c := newCluster(t)
	c.fails = func(args []string) bool { return argument(args, "--name=") == "tripod-etcd-1" }
	require.ErrorContains(t, Restore(t.Context(), c.options()), "nothing was replaced, and the release runs again")
	assert.Equal(t, checks[:3], c.steps())
	c.checkRunning(t)
}

func TestAnInterruptedRestoreContinues(t *testing.T) {
	c := newCluster(t)
	interrupted, cancel := context.WithCancel(t.Context())
	c.fails = func(args []string) bool {
		if argument(args, "--name=") == "tripod-etcd-1" && !slices.Contains(args, "--dry-run") {
			cancel()
			return true
		}
		return false
	}
	require.ErrorContains(t, Restore(interrupted, c.options()), "the same command continues")
	replicas, _ := c.replicas(t)
	assert.Equal(t, stopped, replicas, "members with different data must not start")
	mark := argument(c.jobs[len(c.jobs)-1], "--restore-name=")

	other := c.options()
	other.Snapshot = "etcd-20261122T060500Z.db"
	require.ErrorContains(t, Restore(t.Context(), other), "a restore of tripod-etcd from "+located+" is not finished")

	c.fails = func(args []string) bool { return argument(args, "--name=") == "tripod-etcd-2" }
	require.ErrorContains(t, Restore(t.Context(), c.options()), "the same command continues", "a member may have the new data already")
	replicas, _ = c.replicas(t)
	assert.Equal(t, stopped, replicas)

	c.jobs, c.fails = nil, func([]string) bool { return false }
	require.NoError(t, Restore(t.Context(), c.options()))
	assert.Equal(t, append([]string{"check"}, all[4:]...), c.steps())
	assert.Equal(t, mark, argument(c.jobs[len(c.jobs)-1], "--restore-name="))
	c.checkRunning(t)
}

// fail makes all requests for a resource fail.
func (c *cluster) fail(verb, resource string, with error) {
	c.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, with })
}

func TestOnlyOneCommandRestores(t *testing.T) {
	const goingOn = "another restore of tripod-etcd is going on: wait until it has ended"
	other := func(c *cluster) {
		c.change("tripod-etcd", func(s *appsv1.StatefulSet) {
			s.Annotations = map[string]string{annotationRestore: located + "@1@@other", annotationRun: "other", annotationPhase: phaseStopping}
		})
	}
	for name, begin := range map[string]func(c *cluster){
		"while this one checks the snapshot": func(c *cluster) { c.fails = func([]string) bool { other(c); return false } },
		"while this one writes its mark": func(c *cluster) {
			c.meanwhile = func(patch clienttesting.PatchActionImpl) {
				if c.set("tripod-etcd").Annotations == nil {
					assert.Equal(t, "statefulsets", patch.GetResource().Resource, "something stops before the mark is there")
					other(c)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			begin(c)
			require.EqualError(t, Restore(t.Context(), c.options()), goingOn)
			replicas, _ := c.replicas(t)
			assert.Equal(t, running, replicas)
			assert.Equal(t, "other", c.set("tripod-etcd").Annotations[annotationRun])
			assert.Equal(t, []string{"check"}, c.steps())
		})
	}
	t.Run("a change of the StatefulSet by others is no restore", func(t *testing.T) {
		c := newCluster(t)
		changes := 0
		c.meanwhile = func(clienttesting.PatchActionImpl) {
			if changes++; changes == 1 {
				c.change("tripod-etcd", func(*appsv1.StatefulSet) {})
			}
		}
		require.NoError(t, Restore(t.Context(), c.options()))
		c.checkRunning(t)
	})
	t.Run("another command continues it", func(t *testing.T) {
		c := newCluster(t)
		c.fails = func(args []string) bool {
			if argument(args, "--name=") == "tripod-etcd-0" && !slices.Contains(args, "--dry-run") {
				c.change("tripod-etcd", func(s *appsv1.StatefulSet) { s.Annotations[annotationRun] = "other" })
			}
			return false
		}
		require.ErrorContains(t, Restore(t.Context(), c.options()), "another command has taken the restore of tripod-etcd over")
		assert.Equal(t, all[:5], c.steps(), "it goes on")
		replicas, _ := c.replicas(t)
		assert.Equal(t, stopped, replicas)
	})
}

func TestEachRestoreBumpsTheRevisionFurther(t *testing.T) {
	c := newCluster(t)
	bumps := func() (all []string) {
		for _, args := range c.jobs {
			if argument(args, "--name=") != "" {
				all = append(all, argument(args, "--bump-revision="))
			}
		}
		c.jobs = nil
		return slices.Compact(all)
	}
	restored := func(bump uint64, want string) {
		t.Helper()
		o := c.options()
		o.BumpRevision = bump
		require.NoError(t, Restore(t.Context(), o))
		assert.Equal(t, []string{want}, bumps())
	}
	// A snapshot from before all of them: each has raised the revision.
	restored(0, "1000000000")
	restored(0, "2000000000")
	restored(0, "4000000000")
	restored(7_000_000_000, "7000000000")
	// One that is given up raises nothing.
	c.fails = func(args []string) bool { return argument(args, "--name=") == "tripod-etcd-1" }
	require.ErrorContains(t, Restore(t.Context(), c.options()), "nothing was replaced")
	c.jobs, c.fails = nil, func([]string) bool { return false }
	restored(0, "15000000000")
	// One that continues adds the same to all members.
	c.fails = func(args []string) bool {
		return argument(args, "--name=") == "tripod-etcd-1" && !slices.Contains(args, "--dry-run")
	}
	require.Error(t, Restore(t.Context(), c.options()))
	c.fails = func([]string) bool { return false }
	require.NoError(t, Restore(t.Context(), c.options()))
	assert.Equal(t, []string{"30000000000"}, bumps())
	restored(0, "60000000000")

	restored(maxBump, "1000000000000000")
	require.ErrorContains(t, Restore(t.Context(), c.options()), "say by --bump-revision how much")
	o := c.options()
	o.BumpRevision = maxBump + 1
	require.ErrorContains(t, Restore(t.Context(), o), "--bump-revision must be at most 1000000000000000")
}

func TestMembersWhoseDataWentOnAreNotTakenForRestored(t *testing.T) {
	interrupted := func(t *testing.T) *cluster {
		c := newCluster(t)
		c.fails = func(args []string) bool {
			return argument(args, "--name=") == "tripod-etcd-1" && !slices.Contains(args, "--dry-run")
		}
		require.ErrorContains(t, Restore(t.Context(), c.options()), "the same command continues")
		c.jobs, c.fails = nil, func([]string) bool { return false }
		return c
	}
	const want = "has scaled or changed tripod-etcd during the restore"
	t.Run("etcd runs", func(t *testing.T) {
		c := interrupted(t)
		c.scale("tripod-etcd", 3)
		require.ErrorContains(t, Restore(t.Context(), c.options()), want)
		assert.NotContains(t, c.steps(), "restore tripod-etcd-0")
		assert.EqualValues(t, 3, *c.set("tripod-etcd").Spec.Replicas, "it stops what runs")
		// As the error says.
		c.change("tripod-etcd", func(s *appsv1.StatefulSet) { delete(s.Annotations, annotationRestore) })
		require.NoError(t, Restore(t.Context(), c.options()))
		c.checkRunning(t)
	})
	t.Run("etcd ran", func(t *testing.T) {
		c := interrupted(t)
		c.scale("tripod-etcd", 3)
		c.scale("tripod-etcd", 0)
		require.ErrorContains(t, Restore(t.Context(), c.options()), want)
		assert.NotContains(t, c.steps(), "restore tripod-etcd-0")
	})
	t.Run("etcd starts between two members", func(t *testing.T) {
		c := newCluster(t)
		c.fails = func(args []string) bool {
			if argument(args, "--name=") == "tripod-etcd-0" && !slices.Contains(args, "--dry-run") {
				c.scale("tripod-etcd", 3)
			}
			return false
		}
		require.ErrorContains(t, Restore(t.Context(), c.options()), want)
		assert.Equal(t, all[:5], c.steps())
	})
	t.Run("etcd starts after the last member", func(t *testing.T) {
		c := newCluster(t)
		c.fails = func(args []string) bool {
			if argument(args, "--name=") == "tripod-etcd-2" && !slices.Contains(args, "--dry-run") {
				c.scale("tripod-etcd", 3)
			}
			return false
		}
		require.ErrorContains(t, Restore(t.Context(), c.options()), want)
		assert.Equal(t, phaseRestoring, c.set("tripod-etcd").Annotations[annotationPhase], "it takes that for its own start")
	})
	t.Run("a mark without more", func(t *testing.T) {
		c := newCluster(t)
		c.change("tripod-etcd", func(s *appsv1.StatefulSet) {
			s.Annotations = map[string]string{annotationRestore: located + "@1@@then"}
		})
		require.ErrorContains(t, Restore(t.Context(), c.options()), want)
	})
}

// The command itself has started etcd, which may have new writes.
func TestARestoreThatIsStartingRestoresNothingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.notReady = true
		require.ErrorContains(t, Restore(t.Context(), c.options()), "tripod-etcd is restored and does not serve yet; the same command continues")
		c.jobs, c.notReady = nil, false
		require.NoError(t, Restore(t.Context(), c.options()))
		assert.Empty(t, c.jobs)
		c.checkRunning(t)
	})
}

func TestALostAnswerAtTheEndDoesNotAskForAnotherRestore(t *testing.T) {
	c := newCluster(t)
	c.lost = func(patch clienttesting.PatchActionImpl) bool {
		return strings.Contains(string(patch.Patch), `"`+annotationRestore+`":null`)
	}
	err := Restore(t.Context(), c.options())
	require.ErrorContains(t, err, "tripod-etcd is restored and runs; do not run this again; its annotation tripod-k8s.io/restore may be left")
	assert.NotContains(t, err.Error(), "same command")
	c.checkRunning(t)
}

func TestWhatWasGivenUpStartsWithTheOldData(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	// One stops only after a long time.
	slow := func(t *testing.T, c *cluster, label, value string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "slow", Labels: map[string]string{label: value}}}
		require.NoError(t, c.client.Tracker().Create(pods, pod, "a"))
	}
	for _, label := range [][2]string{{"app", "tripod-core"}, {labelEtcd, "etcd"}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			slow(t, c, label[0], label[1])
			err := Restore(t.Context(), c.options())
			require.ErrorContains(t, err, "nothing was replaced, and the release runs again: waited 5m0s until the pods of tripod-")
			assert.Equal(t, []string{"check"}, c.steps())
			c.checkRunning(t)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		slow(t, c, "app", "tripod-core")
		c.notReady = true
		require.ErrorContains(t, Restore(t.Context(), c.options()),
			"tripod-etcd keeps the old data and does not serve yet; the same command starts it")
		c.notReady = false
		require.ErrorContains(t, Restore(t.Context(), c.options()), "an earlier command gave up: run this again to restore")
		c.checkRunning(t)
		require.NoError(t, c.client.Tracker().Delete(pods, "a", "slow"))
		require.NoError(t, Restore(t.Context(), c.options()))
		assert.Equal(t, append([]string{"check"}, all...), c.steps())
	})
}

func TestNothingStopsWithoutTheRights(t *testing.T) {
	for _, resource := range []string{"deployments", "statefulsets"} {
		c := newCluster(t)
		c.fail("patch", resource, apierrors.NewForbidden(appsv1.Resource(resource), "x", errors.New("no rights")))
		require.ErrorContains(t, Restore(t.Context(), c.options()), "nothing was stopped, because tripod-")
		c.checkRunning(t)
		_, err := DryRun(t.Context(), c.options())
		require.ErrorContains(t, err, "nothing was stopped, because tripod-")
	}
}

// GitOps may scale up what a restore has stopped, and leave the annotation.
func TestAnOldNumberOfReplicasDoesNotCount(t *testing.T) {
	old := map[string]string{annotationReplicas: "7"}
	core := deployment("tripod-core", 2, "--etcd-servers=https://tripod-etcd-0.tripod-etcd.a.svc:2379")
	etcd := set("etcd", 3)
	core.Annotations, etcd.Annotations = old, old
	c := newCluster(t, core, etcd, cronJob("tripod-etcd-snapshot"))
	require.NoError(t, Restore(t.Context(), c.options()))
	replicas, annotations := c.replicas(t)
	assert.Equal(t, map[string]int32{"tripod-core": 2, "tripod-etcd": 3}, replicas)
	assert.Zero(t, annotations)
	assert.Equal(t, all, c.steps())
}

func TestASnapshotOfAnotherEtcdHasToBeWanted(t *testing.T) {
	c := newCluster(t)
	o := c.options()
	o.Snapshot, o.OtherCluster = "etcd-extensions-20261121T060500Z.db", true
	plan, err := DryRun(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, "s3://backups/a/tripod/"+o.Snapshot, plan.Snapshot)
	o.OtherCluster = false
	for _, of := range []string{o.Snapshot, "s3://backups/b/" + o.Snapshot} {
		o.Snapshot = of
		_, err = DryRun(t.Context(), o)
		require.ErrorContains(t, err, "is not the name of a snapshot of tripod-etcd")
	}
	o.Snapshot = "s3://backups/b/latest.db"
	_, err = DryRun(t.Context(), o)
	require.NoError(t, err)
}

// What another command continues is not to be restored once more: services may have written since.
func TestACommandThatWasOvertakenDoesNotAskToBeRunAgain(t *testing.T) {
	c := newCluster(t)
	replaced := false
	c.fails = func(args []string) bool {
		replaced = argument(args, "--name=") == "tripod-etcd-0" && !slices.Contains(args, "--dry-run")
		return false
	}
	c.client.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return replaced, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "other"}}, nil
	})
	require.EqualError(t, Restore(t.Context(), c.options()),
		"another command has taken the restore of tripod-etcd over: wait until that has ended, and do not run this again")
}

// Members would otherwise differ if the file is replaced meanwhile.
func TestAllMembersTakeTheSnapshotThatWasChecked(t *testing.T) {
	first, second := strings.Repeat("a", 64), strings.Repeat("b", 64)
	assert.Equal(t, []string{"SHA-256 " + first, first}, printedHash.FindStringSubmatch("/s/etcd.db: 20.1 MiB, revision 4711, SHA-256 "+first+", of the etcd cluster -"))
	c := newCluster(t)
	marked := func(phase string) {
		c.change("tripod-etcd", func(s *appsv1.StatefulSet) {
			s.Annotations = map[string]string{annotationRestore: located + "@7@" + first + "@then", annotationPhase: phase}
		})
	}
	marked(phaseStopping)
	require.NoError(t, Restore(t.Context(), c.options()))
	hashes := 0
	for _, args := range c.jobs[1:] {
		hashes++
		assert.Equal(t, first, argument(args, "--sha256="))
	}
	assert.Equal(t, 6, hashes)

	marked(phaseStopping)
	r, err := find(t.Context(), c.options())
	require.NoError(t, err)
	r.hash = second
	require.ErrorContains(t, r.begin(), "is another snapshot than the one from which tripod-etcd is being restored")
	r.mark = located + "@7@@then" // its check could not be read
	require.NoError(t, r.begin())
	r.mark, r.hash, r.BumpRevision = located+"@7@"+first+"@then", first, 8
	require.ErrorContains(t, r.begin(), "continue it with the same --bump-revision")
}

// A Deployment that starts while etcd stops has the data of before the restore.
func TestADeploymentThatSomethingStartsIsNotOverlooked(t *testing.T) {
	c := newCluster(t)
	c.meanwhile = func(patch clienttesting.PatchActionImpl) {
		if patch.GetResource().Resource != "statefulsets" || !strings.Contains(string(patch.Patch), `"replicas":0`) {
			return
		}
		deployments := appsv1.SchemeGroupVersion.WithResource("deployments")
		found, err := c.client.Tracker().Get(deployments, "a", "tripod-core")
		require.NoError(t, err)
		core := found.(*appsv1.Deployment).DeepCopy()
		core.Spec.Replicas = ptr.To[int32](2)
		require.NoError(t, c.client.Tracker().Update(deployments, core, "a"))
	}
	err := Restore(t.Context(), c.options())
	require.ErrorContains(t, err, "nothing was replaced, and the release runs again: something else has scaled tripod-core up")
	assert.Equal(t, []string{"check"}, c.steps())
	c.checkRunning(t)
}

// Kubernetes would keep such a pod waiting until the Job ends.
func TestAPodThatDoesNotStartEndsTheRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := newCluster(t), time.Now()
		c.client.PrependReactor("get", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
			found, err := c.client.Tracker().Get(action.GetResource(), "a", action.(clienttesting.GetAction).GetName())
			if err != nil {
				return true, nil, err
			}
			job := found.(*batchv1.Job).DeepCopy()
			job.Status = batchv1.JobStatus{Active: 1}
			return true, job, nil
		})
		c.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pending := corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{batchv1.ControllerUidLabel: "1"}},
				Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node has the volume"},
				}},
			}
			if action.(clienttesting.ListAction).GetListRestrictions().Fields.String() != "" { // it goes with its Job
				return true, &corev1.PodList{}, nil
			}
			return true, &corev1.PodList{Items: []corev1.Pod{pending}}, nil
		})
		_, err := DryRun(t.Context(), c.options())
		require.EqualError(t, err, "the pod x does not start for 5m0s: no node has the volume")
		assert.Less(t, time.Since(begun), podTimeout+time.Minute)
	})
}

func TestTheErrorOfAJobSaysWhyItFailed(t *testing.T) {
	c := newCluster(t)
	c.fails = func([]string) bool { return true }
	c.why = batchv1.JobCondition{Reason: "DeadlineExceeded", Message: "Job was active longer than specified deadline"}
	_, err := DryRun(t.Context(), c.options())
	require.EqualError(t, err, "the Job tripod-etcd-restore-check-1 failed: DeadlineExceeded Job was active longer than specified deadline")
}

func TestAJobThatCannotBeReadIsNotAwaited(t *testing.T) {
	for want, end := range map[string]error{
		"no rights":       apierrors.NewForbidden(batchv1.Resource("jobs"), "x", errors.New("no rights")),
		`"x" not found`:   apierrors.NewNotFound(batchv1.Resource("jobs"), "x"),
		"another command": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, begun := newCluster(t), time.Now()
			c.client.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "other"}}, end
			})
			_, err := DryRun(t.Context(), c.options())
			require.ErrorContains(t, err, want)
			assert.Less(t, time.Since(begun), time.Minute, "it waited")
		})
	}
}

// A killed command leaves its Job, whose pod may still write to the volume.
func TestAVolumeHasOneWriter(t *testing.T) {
	for name, after := range map[string][2]time.Duration{
		"the garbage collector removes the Job after its pod": {time.Minute, 30 * time.Second},
		"the pod is an orphan":                                {30 * time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) { testOneWriter(t, after[0], after[1]) })
	}
}

// testOneWriter begins with a Job and its pod, which are gone some time after the deletion of the Job.
func testOneWriter(t *testing.T, jobGone, podGone time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const name = "tripod-etcd-restore-0"
		jobs, pods := batchv1.SchemeGroupVersion.WithResource("jobs"), corev1.SchemeGroupVersion.WithResource("pods")
		c := newCluster(t)
		left := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "left"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name + "-x", Labels: map[string]string{
			batchv1.JobNameLabel: name, batchv1.ControllerUidLabel: "left",
		}}}
		require.NoError(t, c.client.Tracker().Create(jobs, left, "a"))
		require.NoError(t, c.client.Tracker().Create(pods, pod, "a"))
		ending := false
		c.client.PrependReactor("delete", "jobs", func(action clienttesting.Action) (bool, runtime.Object, error) {
			found, err := c.client.Tracker().Get(jobs, "a", action.(clienttesting.DeleteAction).GetName())
			if err != nil || found.(*batchv1.Job).UID != "left" {
				return false, nil, nil //nolint:nilerr // the tracker returns the error
			}
			options := action.(clienttesting.DeleteActionImpl).DeleteOptions
			assert.Equal(t, metav1.DeletePropagationForeground, *options.PropagationPolicy)
			if !ending {
				ending = true
				time.AfterFunc(podGone, func() { assert.NoError(t, c.client.Tracker().Delete(pods, "a", pod.Name)) })
				time.AfterFunc(jobGone, func() { assert.NoError(t, c.client.Tracker().Delete(jobs, "a", name)) })
			}
			return true, nil, nil
		})
		c.fails = func(args []string) bool {
			if argument(args, "--name=") == "tripod-etcd-0" {
				_, err := c.client.Tracker().Get(pods, "a", pod.Name)
				assert.True(t, apierrors.IsNotFound(err), "the pod of the old Job still writes")
			}
			return false
		}
		require.NoError(t, Restore(t.Context(), c.options()))
		assert.True(t, ending)
		assert.Equal(t, all, c.steps())
		c.checkRunning(t)
	})
}

// Time passes at once in it.
func TestARestoreHasEndedWhenServicesStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.unavailable = []string{"tripod-core"}
		err := Restore(t.Context(), c.options())
		require.ErrorContains(t, err, "tripod-etcd is restored and runs; do not run this again; tripod-core is not available")
		assert.NotContains(t, err.Error(), "same command continues")
		assert.Equal(t, all, c.steps())
		c.checkRunning(t)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.unavailable = []string{"tripod-core"}
		c.fails = func(args []string) bool { return argument(args, "--name=") == "tripod-etcd-1" }
		err := Restore(t.Context(), c.options())
		require.ErrorContains(t, err, "nothing was replaced, and tripod-etcd runs again, but tripod-core is not available")
		assert.NotContains(t, err.Error(), "same command continues")
		c.checkRunning(t)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.unavailable = []string{"tripod-core"}
		interrupted, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		require.ErrorContains(t, Restore(interrupted, c.options()), "do not run this again; tripod-core is not available (context canceled)")
	})
}

func TestReleasesThatCannotBeRestored(t *testing.T) {
	without := func(change func(*appsv1.StatefulSet)) []runtime.Object {
		s := set("etcd", 1)
		change(s)
		return []runtime.Object{s, cronJob("tripod-etcd-snapshot")}
	}
	for want, test := range map[string]struct {
		objects  []runtime.Object
		snapshot string
	}{
		"the release saves no snapshots": {objects: []runtime.Object{set("etcd", 1)}},
		"has no etcd etcd of its own":    {objects: []runtime.Object{set("etcd-extensions", 1)}},
		"still has etcd.restore.snapshot": {objects: without(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "restore"}}
		})},
		"keeps no data in volumes":          {objects: without(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil })},
		"is scaled to 0":                    {objects: without(func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) })},
		"is neither the name of a snapshot": {snapshot: "../" + snapshotFile},
		`"etcd-extensions-20261121T060500Z.db" is not the name of a snapshot of tripod-etcd`: {snapshot: "etcd-extensions-20261121T060500Z.db"},
	} {
		c := newCluster(t, test.objects...)
		o := c.options()
		if test.snapshot != "" {
			o.Snapshot = test.snapshot
		}
		_, err := DryRun(t.Context(), o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, Restore(t.Context(), o), want)
		assert.False(t, strings.Contains(err.Error(), "\n"))
		assert.Empty(t, c.jobs)
	}
}
