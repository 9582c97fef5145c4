// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit tests that Tripod's services together write the audit log that kube-apiserver writes: the same requests
// go to both, each with an Audit-ID of its own, and the events with that ID have to be the same, none missing, none twice.
//
// With TEST_AGAINST=stock a second kube-apiserver takes the place of Tripod.
package audit
