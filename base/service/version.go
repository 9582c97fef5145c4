// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

// Version is the version of Tripod, set by the linker in release builds.
var Version = "dev"
