// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server answers searches below /apis/clusterpedia.io/v1beta1.
//
// A request below resources/ is that of another API: the objects of all clusters, or of one. It is authorized, audited and queued as what
// it is, such as "list deployments" (see Nested). The way of a request: nested.go reads its path, and so finds its class, authorizer.go
// decides, and handler.go answers by the class, with discovery.go, list.go and collections.go.
package server
