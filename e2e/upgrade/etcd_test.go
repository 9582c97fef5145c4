// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/e2e/imagearchive"
	"github.com/tripod-k8s/tripod/e2e/release"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestHelmReplacesEtcdThereAndBack gives the older services the etcd of the newer version, and goes back. The release has one member, so
// requests fail while it restarts.
func TestHelmReplacesEtcdThereAndBack(t *testing.T) {
	before, tag, err := env.Cluster.Image(t.Context(), "etcd")
	require.NoError(t, err)
	newerEtcd := loadEtcd(t)
	old := release.Values{"tag": tag}
	old["registry"], old["repository"] = cutRegistry(t, before)
	from, to := minor(t, tag), minor(t, newerEtcd["tag"].(string))
	require.NotEqual(t, from, to, "the etcd of kind's node is already that of the newer version, so that nothing is replaced")
	runs(t, from, "before")

	require.NoError(t, tripod.Upgrade(t.Context(), release.Values{"etcd": release.Values{"image": newerEtcd}}))
	runs(t, to, "before", "there")
	back := release.Values{"etcd": release.Values{"image": old}}
	require.ErrorContains(t, tripod.Upgrade(t.Context(), back), "etcd.downgradedTo", "the older etcd would refuse the data")
	runs(t, to, "before", "there", "refused")

	storeOlderForm(t, from)
	back["etcd"].(release.Values)["downgradedTo"] = from
	require.NoError(t, tripod.Upgrade(t.Context(), back))
	runs(t, from, "before", "there", "refused", "back")
}

// loadEtcd loads the etcd of the newer version into the cluster, and returns the values of its image. The chart reads the version in the tag.
func loadEtcd(t *testing.T) release.Values {
	t.Helper()
	root, err := framework.RepositoryRoot()
	require.NoError(t, err)
	program := filepath.Join(root, "bin", "test-assets", "etcd")
	out, err := exec.CommandContext(t.Context(), program, "--version").Output()
	require.NoError(t, err)
	version := regexp.MustCompile(`etcd Version: (\S+)`).FindSubmatch(out)
	require.NotNil(t, version, "etcd --version prints %s", out)
	values := release.Values{"registry": "docker.io", "repository": "tripod-e2e/newer-etcd", "tag": "v" + string(version[1])}
	archive := filepath.Join(env.Dir, "etcd.tar")
	require.NoError(t, imagearchive.WriteComponent(archive, fmt.Sprintf("docker.io/tripod-e2e/newer-etcd:v%s", version[1]), program))
	_, err = env.Cluster.Load(archive)
	require.NoError(t, err)
	return values
}

func cutRegistry(t *testing.T, image string) (registry, repository string) {
	t.Helper()
	parts := regexp.MustCompile(`^([^/]+)/(.+)$`).FindStringSubmatch(image)
	require.NotNil(t, parts, image)
	return parts[1], parts[2]
}

func minor(t *testing.T, tag string) string {
	t.Helper()
	found := regexp.MustCompile(`^v?(\d+\.\d+)\.`).FindStringSubmatch(tag)
	require.NotNil(t, found, "etcd's tag %s has no version", tag)
	return found[1]
}

// storeOlderForm has a Job do what docs/upgrade.md does with jq. Its image is the newer one, because the last release does not have the
// command.
func storeOlderForm(t *testing.T, version string) {
	t.Helper()
	batch := env.Cluster.Client.BatchV1()
	template, err := batch.CronJobs(tripod.Namespace).Get(t.Context(), tripod.Name+"-etcd-defrag", metav1.GetOptions{})
	require.NoError(t, err)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "etcd-downgrade"}, Spec: template.Spec.JobTemplate.Spec}
	container := &job.Spec.Template.Spec.Containers[0]
	require.True(t, strings.HasSuffix(container.Image, ":"+older), "the image %s has another tag than %s", container.Image, older)
	container.Image = strings.TrimSuffix(container.Image, older) + newer
	args := container.Args
	at := slices.Index(args, "defrag")
	require.GreaterOrEqual(t, at, 0, "arguments of the Job that defragments: %q", args)
	args[at] = "downgrade"
	container.Args = append(args, "--to="+version)
	_, err = batch.Jobs(tripod.Namespace).Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	framework.Eventually(t, "the Job has ended", func(ctx context.Context) error {
		job, err := batch.Jobs(tripod.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("its status is %+v", job.Status)
		}
		return nil
	})
}

// runs requires that etcd serves by the rules of a minor version, creates the last of the named ConfigMaps, if it is not there, and reads all.
func runs(t *testing.T, version string, configMaps ...string) {
	t.Helper()
	framework.Eventually(t, "etcd is of "+version, func(ctx context.Context) error { return serves(ctx, version) })
	last := configMaps[len(configMaps)-1]
	framework.Eventually(t, "a write succeeds", func(ctx context.Context) error {
		_, err := tripod.Kubectl(ctx, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: etcd-%s}}", last), "apply", "-f", "-")
		return err
	})
	for _, name := range configMaps {
		_, err := tripod.Kubectl(t.Context(), "", "get", "configmap", "etcd-"+name)
		assert.NoError(t, err)
	}
}

// serves asks the only member for the version that the cluster of etcd has agreed on.
func serves(ctx context.Context, version string) error {
	address, stop, err := tripod.Forward(ctx, tripod.Name+"-etcd-0", 2381)
	if err != nil {
		return err
	}
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	agreed := regexp.MustCompile(`etcd_cluster_version\{cluster_version="([^"]+)"\} 1`).FindAllSubmatch(metrics, -1)
	if len(agreed) != 1 || string(agreed[0][1]) != version {
		return fmt.Errorf("its metrics have the versions %s", agreed)
	}
	return nil
}
