// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Annotations of the objects that search answers with.
const (
	// ClusterAnnotation names the cluster of an object. Its name is that of Clusterpedia.
	ClusterAnnotation = "shadow.clusterpedia.io/cluster-name"
	// ResourceVersionAnnotation has the resourceVersion that an object has in its cluster.
	ResourceVersionAnnotation = "shadow.clusterpedia.io/resource-version"
	// ChangedAtAnnotation has the time of the last change between two moments, in RFC 3339, if a search asks for the objects that differ.
	ChangedAtAnnotation = "shadow.clusterpedia.io/changed-at"
)
