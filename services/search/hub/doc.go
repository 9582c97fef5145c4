// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub follows objects of the cluster that search is part of: those that PediaClusters and policies name.
package hub
