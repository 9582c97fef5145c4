// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregators has clients use several aggregators behind the balancer of `tripod up --lb` while these come and go.
package aggregators
