// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package schemas

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"
)

func TestDefinitionsAreAsLargeAsRealOnes(t *testing.T) {
	sum, most := 0, 0
	names := map[string]bool{}
	for _, crd := range Generate(600) {
		size, err := Bytes(crd)
		require.NoError(t, err)
		sum, most = sum+size, max(most, size)
		names[crd.Name] = true
	}
	if average := sum / 600; average < 23_000 || average > 27_000 {
		t.Errorf("schemas have %d bytes on average, want about 25,000", average)
	}
	if most < 100_000 {
		t.Errorf("the largest schema has %d bytes; some real ones are much larger", most)
	}
	assert.Len(t, names, 600, "%d different names of 600", len(names))
}

func TestDefinitionsAreTheSameEachTime(t *testing.T) {
	if !reflect.DeepEqual(Generate(20), Generate(20)) {
		t.Error("two runs would not be comparable")
	}
}

func TestSchemasAreStructural(t *testing.T) {
	for _, crd := range Generate(50) {
		var internal apiextensions.JSONSchemaProps
		given := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(given, &internal, nil))
		structural, err := schema.NewStructural(&internal)
		require.NoError(t, err, crd.Name)
		if errs := schema.ValidateStructural(nil, structural); len(errs) > 0 {
			t.Errorf("%s: %v", crd.Name, errs.ToAggregate())
		}
	}
}

func TestRealDefinitionsAreRead(t *testing.T) {
	dir := t.TempDir()
	var two []byte
	for _, crd := range Generate(2) {
		data, err := yaml.Marshal(crd)
		require.NoError(t, err)
		two = append(append(two, "---\n"...), data...)
	}
	two = append(two, "---\nkind: ConfigMap\n"...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crds.yaml"), two, 0o600))
	read, err := Read(dir)
	if err != nil || len(read) != 2 {
		t.Errorf("read %d definitions of 2: %v", len(read), err)
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a directory without definitions is no error")
	}
}
