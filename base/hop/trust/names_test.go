// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

// User names of two backends.
const (
	Core       = userPrefix + "core"
	Extensions = userPrefix + "extensions"
)
