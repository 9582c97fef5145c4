// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service is what the process of every service of Tripod has: its command line, its version, its identity among API servers,
// its probes, and discovery and OpenAPI documents in the form of kube-apiserver's.
package service
