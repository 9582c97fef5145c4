// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/e2e/environment"
	"github.com/tripod-k8s/tripod/e2e/progress"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework/traffic"
)

// TestDataMoves follows docs/backup.md and docs/migrate.md: it restores a release from a snapshot, then moves the custom resources to an
// etcd of their own.
func TestDataMoves(t *testing.T) {
	r := tripod
	installWithSnapshots(t, r)
	custom := traffic.Custom("Kept")
	if _, err := r.Kubectl(t.Context(), traffic.Definitions([]traffic.Resource{custom}), "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	resources := []traffic.Resource{traffic.ConfigMaps, custom}
	for _, resource := range resources {
		awaitCode(t, r, resource.Collection("default"), http.StatusOK)
		create(t, r, resource, "kept")
	}
	restore(t, r, resources)
	restoreByCommand(t, r, resources)
	split(t, r, resources)
}

// restore restores a snapshot, and checks that no resourceVersion goes back.
func restore(t *testing.T, r *release.Release, resources []traffic.Resource) {
	t.Helper()
	snapshot := saveSnapshot(t, r, "etcd-snapshot")
	var last uint64
	for _, resource := range resources {
		last = max(last, create(t, r, resource, "lost"))
	}
	values := release.Values{"etcd": release.Values{"restore": release.Values{"snapshot": snapshot}}}
	refused(t, "a restore while etcd runs", r.Upgrade(t.Context(), values), "first scale it and the services to 0")
	progress.Require(t, "everything stops", func() error { return stopAll(t.Context(), r) })
	progress.Require(t, "helm restores "+snapshot, func() error { return r.Upgrade(t.Context(), values) })
	for _, resource := range resources {
		awaitCode(t, r, resource.Path("default", "kept"), http.StatusOK)
		awaitCode(t, r, resource.Path("default", "lost"), http.StatusNotFound)
		if version := create(t, r, resource, "later"); version <= last {
			t.Errorf("a resourceVersion of %s is %d, want more than %d", resource.Plural, version, last)
		}
	}
	progress.Require(t, "etcd starts once more", func() error {
		_, err := r.HostKubectl(t.Context(), "", "delete", "pod", r.Name+"-etcd-0")
		return err
	})
	for _, resource := range resources {
		awaitCode(t, r, resource.Path("default", "later"), http.StatusOK)
	}
}

// restoreByCommand restores a snapshot by one command, which first shows what it would do.
func restoreByCommand(t *testing.T, r *release.Release, resources []traffic.Resource) {
	t.Helper()
	snapshot := saveSnapshot(t, r, "etcd-snapshot")
	var last uint64
	for _, resource := range resources {
		last = max(last, create(t, r, resource, "lost"))
	}
	command := []string{"etcd", "restore-release", r.Name, snapshot}
	_, err := r.HostTripod(t.Context(), command...)
	refused(t, "a restore beside that of the value", err, "remove the value by helm upgrade first")
	progress.Require(t, "helm removes the value", func() error {
		return r.Upgrade(t.Context(), release.Values{"etcd": release.Values{"restore": release.Values{"snapshot": ""}}})
	})
	progress.Require(t, "a dry run checks "+snapshot, func() error {
		output, err := r.HostTripod(t.Context(), append(command, "--dry-run")...)
		assert.Contains(t, output, "of the etcd cluster")
		assert.Contains(t, output, r.Name+"-core would stop")
		assert.Contains(t, output, r.Name+"-etcd-0 would stop")
		return err
	})
	for _, resource := range resources {
		awaitCode(t, r, resource.Path("default", "lost"), http.StatusOK)
	}
	refusedDuringARestore(t, r)
	for _, name := range []string{"after", "after-another"} { // the second one must go beyond the first one
		progress.Require(t, "one command restores "+snapshot, func() error {
			_, err := r.HostTripod(t.Context(), command...)
			return err
		})
		for _, resource := range resources {
			awaitCode(t, r, resource.Path("default", "later"), http.StatusOK)
			awaitCode(t, r, resource.Path("default", "lost"), http.StatusNotFound)
		}
		before := last
		for _, resource := range resources {
			version := create(t, r, resource, name)
			if version <= before {
				t.Errorf("a resourceVersion of %s is %d, want more than %d", resource.Plural, version, before)
			}
			last = max(last, version)
		}
	}
}

// refusedDuringARestore checks that no upgrade starts etcd before a restore has ended.
func refusedDuringARestore(t *testing.T, r *release.Release) {
	t.Helper()
	annotate := func(annotation string) error {
		_, err := r.HostKubectl(t.Context(), "", "annotate", "statefulset", r.Name+"-etcd", annotation)
		return err
	}
	require.NoError(t, annotate("tripod-k8s.io/restore=other"))
	refused(t, "an upgrade during a restore", r.Upgrade(t.Context(), release.Values{}), "has not finished the restore of "+r.Name+"-etcd")
	require.NoError(t, annotate("tripod-k8s.io/restore-"))
}

// split gives custom resources, which are the last of the resources, an etcd of their own.
func split(t *testing.T, r *release.Release, resources []traffic.Resource) {
	t.Helper()
	values := release.Values{"etcd": release.Values{"mode": "perService"}}
	refused(t, "an etcd that would be empty", r.Upgrade(t.Context(), values), "copy them first")
	progress.Require(t, "extensions stops and gets an etcd", func() error {
		return r.Upgrade(t.Context(), values, release.Values{"extensions": release.Values{"replicas": 0}})
	})
	// The restore raised the revisions of the source beyond what the new etcd can reach by writes.
	empty := saveSnapshot(t, r, "etcd-extensions-snapshot")
	progress.Require(t, "the new etcd stops", func() error {
		return stop(t.Context(), r, "tripod-k8s.io/etcd=etcd-extensions", "statefulset/"+r.Name+"-etcd-extensions")
	})
	progress.Require(t, "helm restores "+empty, func() error {
		// Three restores have raised the source by 1, 1 and 2 thousand million, the last one from before the second one.
		restore := release.Values{"extensionsSnapshot": empty, "bumpRevision": 5_000_000_000}
		return r.Upgrade(t.Context(), release.Values{"etcd": release.Values{"restore": restore}})
	})
	custom := resources[len(resources)-1]
	assert.Contains(t, runJob(t, r, "split-etcd"), custom.Plural+".", "the Job did not copy %s", custom.Plural)
	progress.Require(t, "extensions starts", func() error {
		return r.Upgrade(t.Context(), release.Values{"extensions": release.Values{"replicas": 1}})
	})
	for _, resource := range resources {
		awaitCode(t, r, resource.Path("default", "later"), http.StatusOK)
		create(t, r, resource, "last")
	}
	if left, err := r.HostKubectl(t.Context(), "", "get", "cronjobs", "-o", "name"); err != nil || strings.Contains(left, "split-etcd") {
		t.Errorf("the CronJob that copies is still there: %v\n%s", err, left)
	}
}

// installWithSnapshots installs the release so that it saves snapshots. A test that passed uninstalls it.
func installWithSnapshots(t *testing.T, r *release.Release) {
	values, err := env.Values(t.Context(), environment.NodePort)
	require.NoError(t, err)
	etcd := values["etcd"].(release.Values)
	persistence := etcd["persistence"].(release.Values)
	persistence["whenDeleted"] = "Delete"
	etcd["snapshots"] = release.Values{"enabled": true, "size": "1Gi", "storageClassName": persistence["storageClassName"]}
	for _, service := range release.Services {
		// Jobs and a second etcd need room on the node.
		values[service] = release.Values{"resources": release.Values{"requests": release.Values{"cpu": "20m"}}}
	}
	for i := range 3 { // for two etcds and for the snapshots
		require.NoError(t, env.Volume(t.Context(), fmt.Sprintf("%s-%d", r.Name, i)))
	}
	t.Cleanup(func() {
		if !t.Failed() { // so that a person can look at it
			assert.NoError(t, r.Uninstall(context.WithoutCancel(t.Context())))
		}
	})
	require.NoError(t, r.Up(t.Context(), values))
}

// create creates an object and returns its resourceVersion.
func create(t *testing.T, r *release.Release, resource traffic.Resource, name string) uint64 {
	t.Helper()
	client := traffic.NewClient(t, r.Admin(), 1)
	created := client.Need(t, http.MethodPost, resource.Collection("default"), resource.Object(name, "1", ""))
	version, err := created.Version()
	require.NoError(t, err)
	return version
}

// awaitCode returns when a GET of path returns code.
func awaitCode(t *testing.T, r *release.Release, path string, code int) {
	t.Helper()
	traffic.NewClient(t, r.Admin(), 1).Await(t, fmt.Sprintf("GET %s returns %d", path, code), path, code)
}

func refused(t *testing.T, what string, err error, why string) {
	t.Helper()
	assert.ErrorContains(t, err, why, "%s: got %v, want a refusal that says %q", what, err, why)
	progress.Printf("%s is refused", what)
}

// saveSnapshot runs a CronJob that saves a snapshot, and returns the name of the snapshot.
func saveSnapshot(t *testing.T, r *release.Release, cronJob string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^/snapshots/(\S+) saved`).FindStringSubmatch(runJob(t, r, cronJob))
	if found == nil {
		t.Fatal("the log of the Job does not name the snapshot")
	}
	return found[1]
}

// runJob creates a Job from a CronJob of the release, and returns the log of the complete Job.
func runJob(t *testing.T, r *release.Release, name string) (output string) {
	t.Helper()
	progress.Require(t, name+" runs", func() error {
		_, err := r.HostKubectl(t.Context(), "", "create", "job", "--from=cronjob/"+r.Name+"-"+name, name)
		if err == nil {
			_, err = r.HostKubectl(t.Context(), "", "wait", "--for=condition=complete", "--timeout=3m", "job/"+name)
		}
		var failed error
		output, failed = r.HostKubectl(t.Context(), "", "logs", "job/"+name)
		_, removed := r.HostKubectl(t.Context(), "", "delete", "job", name)
		return errors.Join(err, failed, removed)
	})
	return output
}

// stopAll stops the services, then the etcd.
func stopAll(ctx context.Context, r *release.Release) error {
	var services []string
	for _, service := range release.Services {
		services = append(services, "deployment/"+r.Name+"-"+service)
	}
	err := stop(ctx, r, "app.kubernetes.io/component in (aggregator,core,extensions)", services...)
	if err == nil {
		err = stop(ctx, r, "tripod-k8s.io/etcd=etcd", "statefulset/"+r.Name+"-etcd")
	}
	return err
}

// stop scales objects to 0 and returns when the last of their pods is gone. The selector selects these pods.
func stop(ctx context.Context, r *release.Release, selector string, objects ...string) error {
	_, err := r.HostKubectl(ctx, "", append([]string{"scale", "--replicas=0"}, objects...)...)
	if err == nil {
		_, err = r.HostKubectl(ctx, "", "wait", "--for=delete", "--timeout=3m", "pod", "--selector="+selector)
	}
	return err
}
