// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package up runs a whole Tripod on one machine, as `tripod up` does: an etcd and any number of replicas of the three
// services, each a process of its own, with everything they need in one data directory.
//
//	DATA_DIR/kubeconfig            for clients of the instance, as a cluster administrator
//	DATA_DIR/pki/                  certificates and keys, made on the first start and renewed on later ones
//	DATA_DIR/etcd/                 data of the embedded etcd
//	DATA_DIR/logs/REPLICA.log      what each process logs
//	DATA_DIR/backends.yaml         where the replicas of core and extensions are, for those who send them requests
//	DATA_DIR/lock                  held, and with the process id of the holder, while the instance runs
//	DATA_DIR/tripod.sock           answers `tripod status`, and obeys `tripod scale`
package up
