// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package search holds that search loses nothing while its replicas, its database, the clusters that it copies and the networks between
// them fail: at the end, its tables equal the objects of the clusters, and the tables that search derives from those follow from them.
package search
