// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile has search copy two honest clusters, and beside them clusters that lie, several at a time. Search must answer about the honest ones as it
// does without them, take no more memory than the chart gives it, send no credentials elsewhere, and leave nothing behind. A short form has lies of each
// kind; HOSTILE=full has all. With -apart, one replica answers and another one copies. Of times the test only prints what it measured.
package hostile
