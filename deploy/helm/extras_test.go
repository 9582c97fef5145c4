// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/utils/ptr"
)

// everyKind has a partition, an additional API service and search besides the three services.
const everyKind = "{search: {enabled: true}, services: {wardle: {image: {repository: example.com/wardle}}}, extensions: {partitions: {shop: {groups: [shop.example.com]}}}}"

func TestEachServiceHasAConfigurationOfTraces(t *testing.T) {
	r := render(t, merged(t, everyKind, "tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 1000}"))
	checkAccepted(t, r)
	for _, component := range []string{"aggregator", "core", "extensions", "extensions-shop", "search", "wardle"} {
		data := find(t, r, "ConfigMap", "tripod-"+component, &corev1.ConfigMap{}).Data["tracing.yaml"]
		file := filepath.Join(t.TempDir(), "tracing.yaml")
		require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
		config, err := genericoptions.ReadTracingConfiguration(file)
		require.NoError(t, err, component)
		assert.Equal(t, ptr.To("localhost:4317"), config.Endpoint)
		assert.Equal(t, ptr.To[int32](1000), config.SamplingRatePerMillion)
		for _, p := range r.pods(t) {
			if p.serves() && p.meta.Labels["app.kubernetes.io/component"] == component {
				assert.Contains(t, p.spec.Containers[0].Args, "--tracing-config-file=/etc/tripod/config/tracing.yaml", component)
			}
		}
	}
	for _, values := range []string{"tracing: {endpoint: 'http://a:4317'}", "tracing: {endpoint: a}", "tracing: {samplingRatePerMillion: 1000001}"} {
		_, err := helmTemplate(t, values)
		assert.ErrorContains(t, err, "at '/tracing/", values)
	}
}

func TestAContainerIsBesideEachServiceThatNamesIt(t *testing.T) {
	beside := "{containers: [{name: beside, image: example.com/beside}]}"
	r := render(t, merged(t, everyKind, "services: {wardle: "+beside+"}", "search: {serve: "+beside+"}",
		"extensions: "+beside, "controllerManager: "+beside))
	checkAccepted(t, r)
	var have []string
	for _, p := range r.pods(t) {
		if slices.ContainsFunc(p.spec.Containers, func(c corev1.Container) bool { return c.Name == "beside" }) {
			have = append(have, p.meta.Labels["app.kubernetes.io/component"])
		}
	}
	slices.Sort(have)
	assert.Equal(t, []string{"controller-manager", "extensions", "extensions-shop", "search", "wardle"}, have)
}

func TestFurtherObjectsAreTemplates(t *testing.T) {
	r := render(t, `extraObjects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}-map', namespace: control}}
- |
  {{- if .Values.networkPolicy.enabled }}
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: {{ include "tripod.fullname" . }}-text, namespace: control}
  {{- end }}`)
	checkAccepted(t, r)
	for _, name := range []string{"tripod-map", "tripod-text"} {
		find(t, r, "ConfigMap", name, &corev1.ConfigMap{})
	}
}
