// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersionsOfKubernetesAlone(t *testing.T) {
	for _, version := range []string{"", "1.36.2", "v1.36", "v0.36.2", "v1.36.2-dirty", "v1.36.2-rc", "latest"} {
		if err := run(version, nil); err == nil || !strings.Contains(err.Error(), "say VERSION=v1.X.Y") {
			t.Errorf("%q: %v", version, err)
		}
	}
	for version, want := range map[string]string{"v1.36.2": "v0.36.2", "v1.38.0-alpha.1": "v0.38.0-alpha.1"} {
		if got := staging(version); got != want {
			t.Errorf("staging modules of %s have %s", version, got)
		}
	}
}

func TestWhatGoesWithAVersionIsRequired(t *testing.T) {
	ours := requirements{
		"k8s.io/kubernetes":               "v1.36.3",
		"k8s.io/api":                      "v0.36.3", // of the version before
		"k8s.io/apiextensions-apiserver":  "v0.36.0", // what another module requires
		"k8s.io/kube-aggregator":          "v0.0.0",  // what Kubernetes itself requires
		"k8s.io/klog/v2":                  "v2.140.0",
		"sigs.k8s.io/yaml":                "v0.36.3",
		"go.etcd.io/etcd/client/v3":       "v3.6.8",
		"go.etcd.io/etcd/etcdutl/v3":      "v3.6.8", // which Kubernetes does not have
		"go.etcd.io/etcd/server/v3":       "v3.6.8",
		"go.etcd.io/bbolt":                "v1.4.3",
		"go.etcd.io/etcd/client/pkg/v3":   "v3.7.0",
		"github.com/prometheus/client_go": "v1.0.0",
	}
	theirs := requirements{
		"go.etcd.io/etcd/client/v3": "v3.7.0", "go.etcd.io/etcd/server/v3": "v3.7.0", "go.etcd.io/etcd/client/pkg/v3": "v3.7.0",
		"go.etcd.io/bbolt": "v1.5.0",
	}
	want := []string{
		"-require=go.etcd.io/etcd/client/v3@v3.7.0",
		"-require=go.etcd.io/etcd/etcdutl/v3@v3.7.0",
		"-require=go.etcd.io/etcd/server/v3@v3.7.0",
		"-require=k8s.io/api@v0.37.1",
		"-require=k8s.io/kubernetes@v1.37.1",
	}
	if got := requireEdits(ours, theirs, "v1.36.3", "v1.37.1"); !slices.Equal(got, want) {
		t.Errorf("edits = %q, want %q", got, want)
	}
}

// A newer version of ours may be there because of a vulnerability.
func TestABumpLowersNothing(t *testing.T) {
	ours := requirements{
		"k8s.io/kubernetes": "v1.36.3", "k8s.io/api": "v0.36.3",
		"go.etcd.io/etcd/client/v3": "v3.6.16", "go.etcd.io/etcd/etcdutl/v3": "v3.6.16", "go.etcd.io/etcd/server/v3": "v3.6.9",
		"golang.org/x/net": "v0.61.0", "google.golang.org/grpc": "v1.79.3",
	}
	theirs := requirements{
		"go.etcd.io/etcd/client/v3": "v3.6.8", "go.etcd.io/etcd/server/v3": "v3.6.11", "golang.org/x/net": "v0.49.0", "google.golang.org/grpc": "v1.79.3",
		"k8s.io/api": "v0.0.0",
	}
	want := []string{"-require=go.etcd.io/etcd/server/v3@v3.6.11", "-require=k8s.io/api@v0.36.4", "-require=k8s.io/kubernetes@v1.36.4"}
	if got := requireEdits(ours, theirs, "v1.36.3", "v1.36.4"); !slices.Equal(got, want) {
		t.Errorf("edits = %q, want %q", got, want)
	}
	want = []string{"go.etcd.io/etcd/client/v3 v3.6.16 (Kubernetes: v3.6.8)", "golang.org/x/net v0.61.0 (Kubernetes: v0.49.0)"}
	if got := ahead(ours, theirs); !slices.Equal(got, want) {
		t.Errorf("ahead of Kubernetes: %q, want %q", got, want)
	}
}

func TestPluginsAreReadFromTheirList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugins.go")
	for content, want := range map[string][]string{
		"package options\nvar x = []string{a.Name}\nvar AllOrderedPlugins = []string{\n\tadmit.PluginName, // AlwaysAdmit\n\tgc.PluginName,\n}\n": {"admit", "gc"},
		"package options\nvar AllPlugins = []string{admit.PluginName}\n":                                                                          nil,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readPlugins(path)
		if (err != nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestGatesAreReadFromTheirMaps(t *testing.T) {
	const content = `package features
var a = map[featuregate.Feature]featuregate.VersionedSpecs{
	genericfeatures.Older: {
		{Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.Beta},
		{Version: version.MustParse("1.35"), Default: true, LockToDefault: true, PreRelease: featuregate.GA},
	},
	Fresh: {{Version: version.MustParse("1.37"), Default: false, PreRelease: featuregate.Alpha}},
}
var b = map[featuregate.Feature][]featuregate.Feature{Fresh: {Older}}
`
	path := filepath.Join(t.TempDir(), "features.go")
	for content, want := range map[string]gates{
		content:              {"Older": "GA, true, locked", "Fresh": "Alpha, false"},
		"package features\n": nil,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readGates(path)
		if (err != nil) != (want == nil) || !maps.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestTheNewestPatchOfEtcdIsTaken(t *testing.T) {
	versions := []string{"go.etcd.io/etcd/server/v3", "v3.6.16", "v3.7.0", "v3.7.3", "v3.7.10", "v3.7.11-rc.0", "v3.8.0-alpha.0"}
	for of, want := range map[string]string{"v3.7.0": "v3.7.10", "v3.7.12": "v3.7.12", "v3.6.8": "v3.6.16", "v3.5.1": "v3.5.1"} {
		if got := newestPatch(versions, of); got != want {
			t.Errorf("newest patch of %s is %s, want %s", of, got, want)
		}
	}
}

func TestFlagsAreReadFromTheirPage(t *testing.T) {
	const page = "# Flags\n\n`--help` shows them.\n\n| flag | core | |\n|---|---|---|\n| `--bind-address` | derived | |\n| `--v` | yes | like `--vmodule` |\n"
	if got, want := flagsIn(page), []string{"--bind-address", "--v"}; !slices.Equal(got, want) {
		t.Errorf("flags = %q, want %q", got, want)
	}
}

func TestTheReportSaysWhatToLookAt(t *testing.T) {
	before := state{version: "v1.36.3", etcd: "v3.6.8", plugins: []string{"admit", "gc"}, flags: []string{"--a", "--b"},
		gates: gates{"Older": "Beta, true", "Same": "Beta, true", "Tracing": "GA, true"}}
	after := state{version: "v1.37.0", etcd: "v3.7.0", plugins: []string{"admit", "gc", "fresh"}, flags: []string{"--b"},
		gates: gates{"Older": "GA, true, locked", "Same": "Beta, true", "Fresh": "Alpha, false"},
		ahead: []string{"golang.org/x/net v0.61.0 (Kubernetes: v0.49.0)"}}
	got := summary(before, after, true, "\nkube changed newErrWatcher\n  Look at: a.go\n", []string{"go.mod"}, []string{"README.md"})
	for _, want := range []string{
		"Kubernetes v1.36.3 -> v1.37.0, etcd v3.6.8 -> v3.7.0",
		"leans on:\n   kube changed newErrWatcher\n     Look at: a.go\n",
		"what each is about):\n   new:  fresh\n",
		"gets which):\n   gone: --a\n",
		"shows:\n   go.mod\n",
		"specs.txt, belongs to a version: make conformance-refresh finds those of v1.37.0",
		"vulnerabilities. Tests decide whether they go together:\n   golang.org/x/net v0.61.0 (Kubernetes: v0.49.0)\n",
		"defaults:\n   new:  Fresh (Alpha, false)\n   now:  Older (GA, true, locked, before: Beta, true)\n   gone: Tracing (GA, true)\n",
		"name v1.36.3 or etcd v3.6.8, most of them in examples:\n   README.md\n",
		"CHANGELOG-1.37.md",
		"step 5):\n   kube/1.36 has the module files that the root had",
		"docs/kubernetes-versions.md has a row for 1.37,",
		"make type-check refresh-advisories verify test conformance kubectl-suite\nBefore a release: make test-upgrade ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	got = summary(before, before, false, "", nil, nil)
	if strings.Contains(got, "Another minor version") {
		t.Errorf("the report of one version names another minor version:\n%s", got)
	}
	for _, want := range []string{"leans on: none changed.", "is about): the same.", "gets which): the same.", "defaults: the same."} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
}
