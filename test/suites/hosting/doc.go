// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hosting starts the drop-in as tools that host control planes start kube-apiserver: Kamaji and vcluster. The files in testdata
// have their commands, flags, environments, probes and mounts, and say from which version they were read. The tests change only addresses,
// ports, and the beginning of paths.
//
//	kamaji-etcd.yaml    a DataStore of etcd with users, and konnectivity: docs/kamaji.md
//	kamaji-kine.yaml    a DataStore of an SQL database, by kine
//	vcluster-kine.yaml  the default of vcluster, SQLite by kine: docs/vcluster.md
//	vcluster-etcd.yaml  an embedded etcd, with private nodes
package hosting
