// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package instance runs a whole Tripod on one machine, as `tripod up` does: an etcd and the three services, each a
// process of its own, with everything they need in one data directory.
//
//	DATA_DIR/kubeconfig            for clients of the instance, as a cluster administrator
//	DATA_DIR/pki/                  certificates and keys, made on the first start and renewed on later ones
//	DATA_DIR/etcd/                 data of the embedded etcd
//	DATA_DIR/logs/COMPONENT.log    what each process logs
//	DATA_DIR/lock                  held, and with the process id of the holder, while the instance runs
//	DATA_DIR/tripod.sock           answers `tripod status`
package instance
