// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package relations finds the fields of objects of Kubernetes point at other objects of the same cluster: by name, as a pod names its
// ConfigMaps, by labels, as a Service selects its pods, and by UID, as each object names its owners.
//
// [References] reads what an object points at. [Pointers] says where objects that point at a certain object have its name, so that a
// database can find them. The package reads the text of objects, which clusters write as they like: each function has bounds.
package relations
