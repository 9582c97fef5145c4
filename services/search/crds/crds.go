// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds has the CustomResourceDefinitions of search, and creates them.
package crds

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// files are named GROUP_PLURAL.yaml.
//
//go:embed *.yaml
var files embed.FS

// fieldManager owns the fields of the definitions.
const fieldManager = "tripod-search"

var resource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// names are the names of the definitions by their files.
var names = map[string]string{
	"cluster.clusterpedia.io_pediaclusters.yaml":         "pediaclusters.cluster.clusterpedia.io",
	"cluster.clusterpedia.io_clustersyncresources.yaml":  "clustersyncresources.cluster.clusterpedia.io",
	"policy.clusterpedia.io_clusterimportpolicies.yaml":  "clusterimportpolicies.policy.clusterpedia.io",
	"policy.clusterpedia.io_pediaclusterlifecycles.yaml": "pediaclusterlifecycles.policy.clusterpedia.io",
	"search.tripod-k8s.io_savedsearches.yaml":            "savedsearches.search.tripod-k8s.io",
}

// Apply creates the definitions, or changes them to those of this version.
func Apply(ctx context.Context, client dynamic.Interface) error {
	return fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(file)
		if err != nil {
			return err
		}
		force := true
		options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force}
		_, err = client.Resource(resource).Patch(ctx, names[file], types.ApplyYAMLPatchType, text, options)
		if err != nil {
			return fmt.Errorf("CustomResourceDefinition %s: %w", names[file], err)
		}
		return nil
	})
}
