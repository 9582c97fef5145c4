// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build kube1.36

package plugins

var older = map[string]Plugin{
	"PodTopologyLabels":            {"PodGroupWorkloadExists", on, "pod groups"},
	"NodeDeclaredFeatureValidator": {"JobValidation", on, "Jobs"},
}
