// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
)

// A fifth service is in the list of services, and has a block of values with its schema. The chart needs nothing else for what every service has.
func TestAServiceOfOurOwnNeedsItsBlockOfValues(t *testing.T) {
	copied := filepath.Join(t.TempDir(), chart)
	require.NoError(t, os.CopyFS(copied, os.DirFS(chart)))
	rewriteJSON(t, filepath.Join(copied, "services.json"), func(all []any) any {
		return append(all, map[string]any{"name": "fifth", "does": "is the fifth", "optional": true})
	})
	rewriteJSON(t, filepath.Join(copied, "values.schema.json"), func(schema map[string]any) any {
		schema["properties"].(map[string]any)["fifth"] = map[string]any{
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{
				"enabled": map[string]any{"type": "boolean"}, "groups": map[string]any{"type": "array"}, "serve": map[string]any{"$ref": "#/$defs/service"},
			},
		}
		return schema
	})
	values, err := os.ReadFile(filepath.Join(copied, "values.yaml"))
	require.NoError(t, err)
	block := "\nfifth: {enabled: false, groups: [fifth.example.com], serve: {}}\n"
	require.NoError(t, os.WriteFile(filepath.Join(copied, "values.yaml"), append(values, block...), 0o600))

	without, err := templateOf(t, copied, "")
	require.NoError(t, err)
	kinds := func(text string) map[string][]string {
		found := map[string][]string{}
		for _, object := range parse(t, text).objects {
			found[object.GetName()] = append(found[object.GetName()], object.GetKind())
		}
		return found
	}
	assert.Empty(t, kinds(without)["tripod-fifth"])
	assert.NotContains(t, without, "--backend=fifth")

	text, err := templateOf(t, copied, merged(t, withMonitors, "fifth: {enabled: true, serve: {replicas: 3, extraArgs: [--v=3], autoscaling: {enabled: true}}}"))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{
		"Deployment", "ServiceAccount", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy", "Service", "ServiceMonitor",
	}, kinds(text)["tripod-fifth"])
	assert.Contains(t, text, "--backend=fifth=dns:///tripod-fifth.control.svc:6443")
	pod := find(t, parse(t, text), "Deployment", "tripod-fifth", &appsv1.Deployment{}).Spec.Template.Spec
	assert.Regexp(t, "^localhost/tripod-k8s/tripod-fifth:.+", pod.Containers[0].Image)
	assert.Contains(t, pod.Containers[0].Args, "--v=3")
	assert.Contains(t, text, "secret/tripod-fifth", "its certificates")

	for _, c := range changesOfOptional("fifth") {
		without, err := templateOf(t, copied, merged(t, c.with))
		require.NoError(t, err)
		with, err := templateOf(t, copied, merged(t, c.with, nested(c.path, c.value)))
		require.NoError(t, err)
		assert.Contains(t, with, c.want, c.path)
		assert.NotContains(t, without, c.want, c.path)
	}

	_, err = templateOf(t, copied, "{fifth: {enabled: true}, services: {fifth: {image: {repository: a}}}}")
	assert.ErrorContains(t, err, "services.fifth and fifth.enabled cannot both be given")
}

// rewriteJSON changes a file of JSON.
func rewriteJSON[T any](t *testing.T, path string, by func(T) any) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var value T
	require.NoError(t, json.NewDecoder(bytes.NewReader(content)).Decode(&value))
	content, err = json.Marshal(by(value))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
}
