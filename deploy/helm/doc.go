// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm tests the chart tripod. The tests render it with helm, validate the objects as an API server would, and check what is in
// them.
//
// promtool parses all expressions of alerts and dashboards, and evaluates the alerts. A pattern finds their metrics, and selectors
// without a namespace. The parser of Prometheus (promql/parser) would do that, too, but is not required: v0.316 raises 46 modules of
// Tripod, such as gRPC and protobuf. Versions up to v0.308 raise none and add 78 lines to go.sum, but with them `go mod tidy` fails for
// Kubernetes 1.36, because tests of Prometheus need a package that two modules there have (cloud.google.com/go/compute/metadata).
package helm
