// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ha installs the preset ha of the chart, and evicts one pod of each of its components while clients go on. It has one node, so the
// pods of a component, which should run on several nodes, run on one.
package ha
