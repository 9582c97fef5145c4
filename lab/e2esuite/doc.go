// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2esuite runs specs of Kubernetes' own end-to-end suite against a cluster, and reads what came of them. `make suite-assets` builds the
// suite and ginkgo.
package e2esuite
