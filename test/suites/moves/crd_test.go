// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/admin/crd"
	"github.com/tripod-k8s/tripod/admin/etcd/access"
	"github.com/tripod-k8s/tripod/base/migration"
	"github.com/tripod-k8s/tripod/base/storage/placement"
	"github.com/tripod-k8s/tripod/test/framework"
)

// instance has objects of a definition, and replicas of extensions and of a service that serves such objects, too.
type instance struct {
	*framework.Tripod
	of    custom
	env   *framework.Environment
	flags []string
}

// startInstance starts an instance with flunders, two replicas of extensions, and two of wardle.
func startInstance(t *testing.T) *instance {
	t.Helper()
	env := framework.ForTest(t)
	i := startServices(t, env, flunder, func(*framework.Cluster) {}, "--service=wardle="+env.Binary("wardle"))
	require.NoError(t, i.Scale(t.Context(), "wardle", 2))
	return i
}

// startServices starts an instance in which extensions has objects, and services come afterwards. more may create others before.
func startServices(t *testing.T, env *framework.Environment, of custom, more func(*framework.Cluster), args ...string) *instance {
	t.Helper()
	tripod, err := env.StartTripod(t.Context(), framework.TripodOptions{})
	require.NoError(t, err)
	define(t, tripod.Cluster, of)
	more(tripod.Cluster)
	require.NoError(t, tripod.Stop())
	tripod, err = env.StartTripod(t.Context(), framework.TripodOptions{DataDir: tripod.DataDir, Args: args})
	require.NoError(t, err)
	require.NoError(t, tripod.Scale(t.Context(), "extensions", 2))
	return newInstance(t, env, tripod, of)
}

func newInstance(t *testing.T, env *framework.Environment, tripod *framework.Tripod, of custom) *instance {
	t.Helper()
	etcd, err := tripod.Component(t.Context(), "etcd")
	require.NoError(t, err)
	return &instance{tripod, of, env, []string{
		"migrate", "crd", of.Group, "-o", "json", "--kubeconfig", tripod.Kubeconfig, "--extensions-etcd", etcd.Address,
		"--extensions-etcd-cafile", filepath.Join(tripod.PKI, "etcd-ca.crt"),
		"--extensions-etcd-certfile", filepath.Join(tripod.PKI, "apiserver-etcd-client.crt"),
		"--extensions-etcd-keyfile", filepath.Join(tripod.PKI, "apiserver-etcd-client.key"),
	}}
}

// restarted returns the instance after a restart with other services.
func (i *instance) restarted(t *testing.T, args ...string) *instance {
	t.Helper()
	require.NoError(t, i.Stop())
	tripod, err := i.env.StartTripod(t.Context(), framework.TripodOptions{DataDir: i.DataDir, Args: args})
	require.NoError(t, err)
	again := newInstance(t, i.env, tripod, i.of)
	again.flags = append(again.flags, i.flags[len(again.flags):]...) // those that the test has added
	return again
}

// run runs the command, and calls at with each line of its progress.
func (i *instance) run(t *testing.T, at func(line string, command *exec.Cmd), args ...string) (*crd.MoveReport, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), i.env.Binary("tripod"), append(slices.Clone(i.flags), args...)...)
	progress, err := command.StderrPipe()
	require.NoError(t, err)
	var out strings.Builder
	command.Stdout = &out
	require.NoError(t, command.Start())
	var lines []string
	for scanner := bufio.NewScanner(progress); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if at != nil {
			at(scanner.Text(), command)
		}
	}
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.Join(lines, "\n"))
	}
	t.Logf("%s", strings.Join(lines, "\n"))
	report := &crd.MoveReport{}
	require.NoError(t, json.Unmarshal([]byte(out.String()), report), out.String())
	return report, nil
}

func (i *instance) move(t *testing.T, args ...string) *crd.MoveReport {
	t.Helper()
	report, err := i.run(t, nil, args...)
	require.NoError(t, err)
	return report
}

// requireOwner requires that clients are led to a service.
func (i *instance) requireOwner(t *testing.T, name string) {
	t.Helper()
	owner, err := clientOf(t, i.Admin()).Resource(apis).Get(t.Context(), i.of.Version+"."+i.of.Group, metav1.GetOptions{})
	require.NoError(t, err)
	leads, _, err := unstructured.NestedString(owner.Object, "spec", "service", "name")
	require.NoError(t, err)
	assert.Equal(t, name, leads)
}

// fixed returns the objects that no writer changes.
func (i *instance) fixed(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := listed(t, clientOf(t, i.Admin()), i.of)
	for name := range all {
		if !strings.HasPrefix(name, "f-") {
			delete(all, name)
		}
	}
	return all
}

// requireSame requires that the objects are as they were.
func (i *instance) requireSame(t *testing.T, before map[string]map[string]any) {
	t.Helper()
	now := i.fixed(t)
	require.Len(t, now, len(before))
	for name, object := range before {
		require.Nil(t, migration.FirstDifference(object, now[name]), name)
	}
}

func TestAGroupMovesToAServiceAndBack(t *testing.T) {
	i := startInstance(t)
	before := i.fixed(t)
	load := startLoad(t, i.Admin(), i.of)
	load.goOn(t)
	estimate := i.move(t, "--to", "wardle", "--dry-run")
	assert.False(t, estimate.Moved)
	require.Len(t, estimate.Resources, 1)
	assert.GreaterOrEqual(t, estimate.Resources[0].Objects, int64(250))

	report := i.move(t, "--to", "wardle")
	assert.True(t, report.Moved)
	t.Logf("out: %.1f s, paused %.1f s", report.Seconds, report.PausedSeconds)
	load.goOn(t)
	i.requireOwner(t, "wardle")
	i.requireSame(t, before)
	load.requireExpired(t, 1)
	assert.False(t, i.move(t, "--to", "wardle").Moved, "it is there")

	report = i.move(t, "--back")
	assert.True(t, report.Moved)
	t.Logf("back: %.1f s, paused %.1f s", report.Seconds, report.PausedSeconds)
	load.goOn(t)
	i.requireOwner(t, "extensions")
	i.requireSame(t, before)
	load.requireExpired(t, 2)
	assert.False(t, i.move(t, "--back").Moved, "it is there")

	require.True(t, i.move(t, "--to", "wardle").Moved, "it goes again")
	load.goOn(t)
	load.finish(t)
	i.requireSame(t, before)
}

// Each run dies at a line of its progress, and the next one ends what it has left.
func TestAMoveOfAGroupThatDiesLosesNothing(t *testing.T) {
	i := startInstance(t)
	i.flags = append(i.flags, "--pause-ttl", "2s")
	before := i.fixed(t)
	load := startLoad(t, i.Admin(), i.of)
	for _, way := range []struct {
		owner string
		args  []string
		lines []string
		// switched is the index of the first line after the switch.
		switched int
	}{
		{"wardle", []string{"--to", "wardle"}, []string{"pausing writes", "comparing both", "leading clients", "opening wardle"}, 2},
		{"extensions", []string{"--back"}, []string{"closing wardle", "comparing both", "leading clients"}, 2},
	} {
		for n, line := range way.lines {
			if n > 0 && n < way.switched && way.owner == "wardle" {
				load.goOn(t) // the group is where it was, and writes go on by themselves
			}
			_, err := i.run(t, func(is string, command *exec.Cmd) {
				if strings.Contains(is, line) {
					assert.NoError(t, command.Process.Kill())
				}
			}, way.args...)
			require.ErrorContains(t, err, "killed", "at %q", line)
			t.Logf("killed at %q", line)
		}
		i.move(t, way.args...)
		load.goOn(t)
		i.requireOwner(t, way.owner)
		i.requireSame(t, before)
	}
	load.finish(t)
	i.requireSame(t, before)
}

func TestAGroupThatIsAwayOutlastsItsDefinition(t *testing.T) {
	i := startInstance(t)
	i.flags = append(i.flags, "--pause-ttl", "2s")
	i.requireRefusals(t)
	before, client := i.fixed(t), clientOf(t, i.Admin())
	i.move(t, "--to", "wardle")
	_, err := i.run(t, nil, "--to", "other")
	require.ErrorContains(t, err, "its objects are in the API service wardle: first run this with --back")

	name := "flunders." + group
	require.NoError(t, client.Resource(crds).Delete(t.Context(), name, metav1.DeleteOptions{}))
	framework.Eventually(t, "the definition goes", func(ctx context.Context) error {
		left, err := client.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %v (error %w)", left, err)
	})
	i.requireSame(t, before)
	_, err = i.run(t, nil, "--back")
	require.ErrorContains(t, err, "there is no CustomResourceDefinition of the group")
	again := &unstructured.Unstructured{}
	require.NoError(t, again.UnmarshalJSON([]byte(i.of.definition())))
	_, err = client.Resource(crds).Create(t.Context(), again, metav1.CreateOptions{})
	require.NoError(t, err)
	i.requireOwner(t, "wardle")
	i.requireSame(t, before)
	i.move(t, "--back")
	i.requireOwner(t, "extensions")
	i.requireSame(t, before)
}

// fischers are of another version than flunders, and have no namespace.
const fischers = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "fischers.wardle.example.com"},
"spec": {"group": "wardle.example.com", "names": {"kind": "Fischer", "plural": "fischers", "singular": "fischer"}, "scope": "Cluster",
"versions": [{"name": "v1alpha1", "served": true, "storage": true,
"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`

func TestADefinitionThatIsDeletedWhileItsGroupIsAwayLeavesNothing(t *testing.T) {
	all := schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "fischers"}
	env := framework.ForTest(t)
	i := startServices(t, env, flunder, func(cluster *framework.Cluster) {
		client := clientOf(t, cluster.Admin())
		definition := &unstructured.Unstructured{}
		require.NoError(t, definition.UnmarshalJSON([]byte(fischers)))
		_, err := client.Resource(crds).Create(t.Context(), definition, metav1.CreateOptions{})
		require.NoError(t, err)
		fischer := &unstructured.Unstructured{}
		fischer.SetGroupVersionKind(all.GroupVersion().WithKind("Fischer"))
		fischer.SetName("one")
		framework.Eventually(t, "a fischer is created", func(ctx context.Context) error {
			_, err := client.Resource(all).Create(ctx, fischer, metav1.CreateOptions{})
			return err
		})
	}, "--service=wardle="+env.Binary("wardle"))
	client, name := clientOf(t, i.Admin()), all.GroupResource().String()
	mine := client.Resource(all)
	before := i.fixed(t)
	i.move(t, "--to", "wardle")
	require.NoError(t, client.Resource(crds).Delete(t.Context(), name, metav1.DeleteOptions{}))
	_, err := i.run(t, nil, "--back")
	require.ErrorContains(t, err, "the service wardle has objects of fischers.wardle.example.com, of which there is no CustomResourceDefinition")
	require.NoError(t, mine.Delete(t.Context(), "one", metav1.DeleteOptions{}))
	i.move(t, "--back")
	i.requireSame(t, before)
	left, err := i.etcd(t).Get(t.Context(), "/registry/wardle.example.com/fischers/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	assert.Zero(t, left.Count)
}

func TestAGroupWhoseServiceIsGoneComesBackAsItWas(t *testing.T) {
	i := startInstance(t)
	i.flags = append(i.flags, "--pause-ttl", "2s")
	before, late := i.fixed(t), flunder.named("f-late")
	i.move(t, "--to", "wardle")
	_, err := clientOf(t, i.Admin()).Resource(flunders).Namespace("default").Create(t.Context(), late, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = i.run(t, nil, "--back", "--abandon")
	require.ErrorContains(t, err, "the service wardle answers, so its objects can move back: run this without --abandon")

	i = i.restarted(t)
	_, err = i.run(t, nil, "--back")
	require.ErrorContains(t, err, `there is no API service "wardle"`)
	estimate := i.move(t, "--back", "--abandon", "--dry-run")
	assert.False(t, estimate.Moved)
	require.Len(t, estimate.Resources, 1)
	assert.Equal(t, int64(len(before)), estimate.Resources[0].Objects)
	_, err = clientOf(t, i.Admin()).Resource(flunders).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsServiceUnavailable(err), "extensions serves nothing of it: %v", err)

	// The service comes again before the run has ended: its objects are not lost yet.
	kill := func(line string, command *exec.Cmd) {
		if strings.Contains(line, "leading clients") {
			assert.NoError(t, command.Process.Kill())
		}
	}
	_, err = i.run(t, kill, "--back", "--abandon")
	require.ErrorContains(t, err, "killed")
	i = i.restarted(t, "--service=wardle="+i.env.Binary("wardle"))
	_, err = i.run(t, nil, "--back")
	require.ErrorContains(t, err, "a run with --abandon has not ended")
	_, err = i.run(t, nil, "--back", "--abandon")
	require.ErrorContains(t, err, "the service wardle answers")
	i.move(t, "--to", "wardle")
	i.requireOwner(t, "wardle")
	require.Len(t, i.fixed(t), len(before)+1)

	i = i.restarted(t)
	assert.True(t, i.move(t, "--back", "--abandon").Moved)
	i.requireOwner(t, "extensions")
	i.requireSame(t, before)
	load := startLoad(t, i.Admin(), flunder)
	load.goOn(t)
	load.finish(t)
}

// etcd returns a client of the etcd.
func (i *instance) etcd(t *testing.T) *clientv3.Client {
	t.Helper()
	etcd, err := access.Connect([]string{i.flags[slices.Index(i.flags, "--extensions-etcd")+1]}, filepath.Join(i.PKI, "etcd-ca.crt"),
		filepath.Join(i.PKI, "apiserver-etcd-client.crt"), filepath.Join(i.PKI, "apiserver-etcd-client.key"))
	require.NoError(t, err)
	t.Cleanup(func() { etcd.Close() })
	return etcd
}

// requireRefusals runs the command with what it cannot do.
func (i *instance) requireRefusals(t *testing.T) {
	t.Helper()
	allow(t, i.Cluster)
	stranger, err := i.UserKubeconfig(t.TempDir(), "stranger")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		args  []string
		wrong string
	}{
		"a built-in group":    {[]string{"apps", "--to", "wardle"}, `"apps" is not an API group of custom resources`},
		"no definition":       {[]string{"none.example.com", "--to", "wardle"}, `there is no CustomResourceDefinition of the group "none.example.com"`},
		"no service":          {[]string{group, "--to", "none"}, `there is no API service "none"`},
		"a service of Tripod": {[]string{group, "--to", "extensions"}, `there is no API service "extensions"`},
		"no way":              {[]string{group}, "at least one of the flags in the group [to back] is required"},
		"no right":            {[]string{group, "--to", "wardle", "--kubeconfig", stranger}, "you need the right for the nonResourceURLs /migration/" + group},
	} {
		flags := slices.Clone(i.flags)
		flags[2] = test.args[0]
		other := &instance{i.Tripod, i.of, i.env, flags}
		_, err := other.run(t, nil, test.args[1:]...)
		assert.ErrorContains(t, err, test.wrong, name)
	}
	// As while tripod migrate groups works.
	etcd := i.etcd(t)
	mover := placement.KeysOf("/registry", group).Mover
	_, err = etcd.Put(t.Context(), mover, "big")
	require.NoError(t, err)
	_, err = i.run(t, nil, "--to", "wardle")
	require.ErrorContains(t, err, "another move of this group is under way")
	_, err = etcd.Delete(t.Context(), mover)
	require.NoError(t, err)
}
