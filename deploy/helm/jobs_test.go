// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"sigs.k8s.io/yaml"
)

// jobs returns the specs of the Jobs of a release by name, without those of hooks, which Helm deletes before it creates them again.
func (r release) jobs() map[string]any {
	found := map[string]any{}
	for _, object := range r.objects {
		if object.GetKind() == "Job" && object.GetAnnotations()["helm.sh/hook"] == "" {
			found[object.GetName()] = object.Object["spec"]
		}
	}
	return found
}

// checkJobs checks that a change of values does not change a Job: it makes another one.
func checkJobs(t *testing.T, before, after release) {
	t.Helper()
	later := after.jobs()
	for name, spec := range before.jobs() {
		if changed, ok := later[name]; ok {
			assert.Equal(t, spec, changed, "the Job %s changes, which the API refuses", name)
		}
	}
}

const withNodes = "{preset: cluster, service: {type: NodePort, nodePort: 30443}, konnectivity: {service: {nodePort: 30132}}, join: {endpoint: '192.0.2.1:30443'}}"

// TestAJobRunsAgainIfWhatItDependsOnChanges compares the Jobs of two sets of values. After another change, they have done their work already.
func TestAJobRunsAgainIfWhatItDependsOnChanges(t *testing.T) {
	prefixes := []string{"tripod-etcd-access-", "tripod-etcd-snapshots-", "tripod-join-"}
	before := render(t, withNodes).jobs()
	require.Len(t, before, len(prefixes))
	for values, again := range map[string][]string{
		"image: {tag: v2}": prefixes,
		"image: {digests: {tripod: 'sha256:" + digest + "'}}":                          prefixes,
		"etcd: {prefix: /other}":                                                       prefixes[:1],
		"extensions: {partitions: {shop: {groups: [shop.example.com]}}}":               prefixes[:1],
		"services: {wardle: {image: {repository: example.com/wardle}}}":                prefixes[:1],
		"etcd: {restore: {snapshot: one.db}}":                                          {prefixes[0], prefixes[2]},
		"join: {kubeletConfiguration: {maxPods: 250}}":                                 prefixes[2:],
		"join: {kubeProxy: {configuration: {mode: nftables}}}":                         prefixes[2:],
		"join: {podNetwork: '{apiVersion: v1, kind: Namespace, metadata: {name: a}}'}": prefixes[2:],
		"konnectivity: {agent: {image: {tag: v9}}}":                                    prefixes[2:],
		"serviceClusterIPRange: 10.9.0.0/16":                                           prefixes[2:],
		"core: {replicas: 5, extraArgs: [--event-ttl=2h]}":                             nil,
		"commonAnnotations: {a: b}":                                                    nil,
		"metrics: {prometheusRule: {enabled: true}}":                                   nil,
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			after := render(t, merged(t, withNodes, values)).jobs()
			require.Len(t, after, len(before))
			for name := range before {
				i := slices.IndexFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
				require.GreaterOrEqual(t, i, 0, name)
				assert.Equal(t, !slices.Contains(again, prefixes[i]), after[name] != nil, "%s stays", name)
			}
		})
	}
}

// TestReleasesDoNotDrift renders each profile again, as tools do that compare what they render with what is there.
func TestReleasesDoNotDrift(t *testing.T) {
	for name, values := range profiles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, render(t, values).text, render(t, values).text)
		})
	}
	t.Run("an upgrade", func(t *testing.T) {
		assert.Equal(t, upgraded(t, "", "", nil).text, upgraded(t, "", "", nil).text)
	})
	templates, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, templates)
	for _, path := range templates {
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, varies := range []string{"randAlpha", "genCA", "genSelfSignedCert", "genPrivateKey", "uuidv4"} {
			assert.False(t, strings.Contains(string(text), varies), "%s has %s", path, varies)
		}
	}
}

// gitops is what the examples in examples/gitops consist of. They have no other fields.
type gitops struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		Project string `json:"project"`
		Source  struct {
			RepoURL, Path, TargetRevision string
			Helm                          struct {
				ReleaseName  string
				ValuesObject map[string]any
			}
		} `json:"source"`
		Destination struct{ Server, Namespace string } `json:"destination"`
		SyncPolicy  struct {
			Automated   struct{ Prune, SelfHeal bool }
			SyncOptions []string
		} `json:"syncPolicy"`

		URL, Interval, Timeout, ReleaseName string
		Ref                                 struct{ Branch string }
		Chart                               struct {
			Spec struct {
				Chart, ReconcileStrategy, Interval string
				SourceRef                          struct{ Kind, Name string }
			}
		}
		DriftDetection struct{ Mode string }
		Values         map[string]any
	} `json:"spec"`
}

// release returns the folder of the chart, the name of the release and its values, or "".
func (g gitops) release() (folder, name string, values map[string]any) {
	switch g.Kind {
	case "Application":
		return g.Spec.Source.Path, g.Spec.Source.Helm.ReleaseName, g.Spec.Source.Helm.ValuesObject
	case "HelmRelease":
		return g.Spec.Chart.Spec.Chart, g.Spec.ReleaseName, g.Spec.Values
	}
	return "", "", nil
}

// TestTheExamplesForArgoCDAndFluxDoNotDrift renders them as these tools do: Argo CD always installs, Flux also upgrades. An image of another version
// leaves no Job that cannot be applied.
func TestTheExamplesForArgoCDAndFluxDoNotDrift(t *testing.T) {
	for _, file := range []string{"argocd.yaml", "flux.yaml"} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "examples", "gitops", file))
			require.NoError(t, err)
			found := ""
			for _, document := range strings.Split(string(text), "\n---\n") {
				var object gitops
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), &object))
				folder, name, values := object.release()
				if folder == "" {
					continue
				}
				assert.Equal(t, "deploy/helm/"+chart, folder)
				assert.Equal(t, "tripod", name)
				data, err := yaml.Marshal(values)
				require.NoError(t, err)
				found = string(data)
			}
			require.NotEmpty(t, found, "no release")
			next := merged(t, found, "image: {tag: v0.2.0}")
			installed := render(t, found)
			checkAccepted(t, installed)
			assert.Equal(t, installed.text, render(t, found).text)
			checkJobs(t, installed, render(t, next))
			if file == "flux.yaml" {
				kept := upgraded(t, found, found, nil)
				assert.Equal(t, kept.text, upgraded(t, found, found, nil).text)
				checkJobs(t, kept, upgraded(t, found, next, nil))
				checkJobs(t, installed, kept)
			}
		})
	}
}

// TestTheCleanupRemovesWhatAnEarlierRevisionHad turns everything on that has certificates of its own. A release may have had it, and have it no
// longer when helm removes the release.
func TestTheCleanupRemovesWhatAnEarlierRevisionHad(t *testing.T) {
	removed := func(values string) sets.Set[string] {
		var job batchv1.Job
		return sets.New(find(t, render(t, values), "Job", "tripod-cleanup", &job).Spec.Template.Spec.Containers[0].Args...)
	}
	all := removed(merged(t, withConsole, withKonnectivity,
		"metrics: {serviceMonitor: {enabled: true}}", "search: {database: {postgres: {enabled: true}}}", "{preset: cluster, advertise: {address: 192.0.2.1}}"))
	missing := all.Difference(removed(""))
	assert.Empty(t, sets.List(missing))
	for _, name := range []string{"console", "konnectivity", "metrics-client", "search-database-server", "scheduler"} {
		assert.Contains(t, all, "secret/tripod-"+name, "the test turns it on")
	}
}
