// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resize gives a release three members of etcd, and one again, while clients go on.
package resize
