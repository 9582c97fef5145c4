// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coalesce makes a few large writes of many small ones, for the connections between services: what one writes by a system call the
// other reads by one, and each of them is a TLS record.
package coalesce
