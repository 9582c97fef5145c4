// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile has search copy two honest clusters and one that lies, with one lie after the other. Search must answer about the honest ones as they
// would, take no more memory than the chart gives it, and leave nothing behind. Of times the test only prints what it measured.
package hostile
