// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package service has what the process of every service needs: its command line, its version, its identity among API servers, its probes,
// and discovery and OpenAPI documents in kube-apiserver's form.
package service
