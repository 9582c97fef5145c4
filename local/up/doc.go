// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package up runs a whole Tripod on one machine, as `tripod up` does: an etcd and any number of replicas of the three
// services, each a process of its own, with everything they need in one data directory.
//
//	DATA_DIR/kubeconfig            for clients of the instance, as a cluster administrator
//	DATA_DIR/pki/                  certificates and keys, made on the first start and renewed on later ones
//	DATA_DIR/etcd/                 data of the embedded etcd
//	DATA_DIR/logs/REPLICA.log      what each process logs
//	DATA_DIR/backends.yaml         where the replicas of core and extensions are, for their clients
//	DATA_DIR/controllers/          kubeconfigs and stages of the controllers
//	DATA_DIR/search.db             the database of search, if it has no other
//	DATA_DIR/lock                  locked while the instance runs; holds its process id
//	DATA_DIR/tripod.sock           serves `tripod status` and `tripod scale`
package up
