// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func example() *facts {
	return &facts{
		minor: "1.38", passed: "460", rolling: "459", specs: "470", etcds: []string{"3.6.17", "3.7.5"},
		patches: map[string]string{"1.38": "1.38.1", "1.37": "1.37.4", "3.7": "3.7.5"},
	}
}

func TestVersionsFollowGoMod(t *testing.T) {
	text, err := example().apply("docs/install.md", "v1.37.2, 1.37.0 of August, 1.34.4, v3.7.3, v3.6.8, and 1.37 stay or change")
	require.NoError(t, err)
	assert.Equal(t, "v1.37.4, 1.37.0 of August, 1.34.4, v3.7.5, v3.6.8, and 1.37 stay or change", text)
}

func TestSentencesFollowTheirSources(t *testing.T) {
	text, err := example().apply("README.md", "Tripod is kube-apiserver 1.37: it passes\n450 of Kubernetes' 462 [conformance specs](x)")
	require.NoError(t, err)
	assert.Equal(t, "Tripod is kube-apiserver 1.38: it passes\n460 of Kubernetes' 470 [conformance specs](x)", text)
	_, err = example().apply("README.md", "Tripod is kube-apiserver 1.37: it passes most")
	require.ErrorContains(t, err, "README.md no longer says")
}

func TestTablesOfStatusHaveTheEtcd(t *testing.T) {
	text, err := example().apply("docs/laptop.md", "etcd-0  true  1  https://127.0.0.1:2379   3.6.16   26s\ncore-0  true  2  https://127.0.0.1:1   v1.37.2\netcd 3.5.33 or later")
	require.NoError(t, err)
	assert.Equal(t, "etcd-0  true  1  https://127.0.0.1:2379   3.7.5   26s\ncore-0  true  2  https://127.0.0.1:1   v1.37.4\netcd 3.5.33 or later", text)
}

func TestTheTableOfWhatWorksTogetherFollowsTheVersions(t *testing.T) {
	table := func(values ...any) string {
		return fmt.Sprintf("| | Tripod with Kubernetes %s | Tripod with Kubernetes %s |\n| `--emulated-version` | %s to %s | %s to %s |\n"+
			"| kubelets, by [policy](x) | %s to %s | %s to %s |\n| kube-controller-manager and kube-scheduler | %s or %s | %s or %s |\n"+
			"| etcd that it embeds, and that the chart installs | %s | %s |\n", values...)
	}
	text, err := example().apply(versionsPage, table("1.37", "1.36", "1.34", "1.37", "1.33", "1.36", "1.34", "1.37", "1.33", "1.36",
		"1.36", "1.37", "1.35", "1.36", "3.7.3", "3.6.16"))
	require.NoError(t, err)
	assert.Equal(t, table("1.38", "1.37", "1.35", "1.38", "1.34", "1.37", "1.35", "1.38", "1.34", "1.37",
		"1.37", "1.38", "1.36", "1.37", "3.7.5", "3.6.17"), text)
}

func TestOneVersionOfEtcdIsAnError(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	required := "module a\n\nrequire (\n\tgo.etcd.io/etcd/server/v3 v3.7.5\n\tk8s.io/kubernetes v1.38.1\n)\n"
	write("go.mod", required)
	write("docs/conformance.md", "| all | 470 | **460** of 470 | **460** of 470 | **459** of 470 |\n")
	_, err := look()
	require.EqualError(t, err, `go.mod and kube/*/go.mod require k8s.io/kubernetes "1.38" and 1 versions of go.etcd.io/etcd/server/v3, and pages `+
		"need two: add the older version, or change hack/doc-versions and docs/kubernetes-versions.md")
	write("kube/1.37/go.mod", required)
	_, err = look()
	require.NoError(t, err)
}

func TestADifferenceNamesItsLine(t *testing.T) {
	assert.Equal(t, []string{"a.md:2: v1.37.2\n\tis stale: v1.37.4"}, differences("a.md", "first\n v1.37.2", "first\n v1.37.4"))
}
