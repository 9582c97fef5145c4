// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diff compares clusters at two moments, as a client of search.
//
// It asks for the objects that differ twice: as they were at the first moment, and as they were at the second. Both lists come in pages of
// one revision, by the rights of the reader.
package diff
