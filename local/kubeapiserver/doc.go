// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeapiserver is the kube-apiserver of Tripod: a command with the flags of kube-apiserver that runs core, extensions
// and aggregator as child processes behind one port. It checks the flags, decides what each service gets, and leaves the rest to package
// supervisor, whose program takes the place of this one.
//
//	kube-apiserver --secure-port=6443 --etcd-servers=... ...
//	├── tripod-aggregator   on --bind-address and --secure-port, with --tls-cert-file or a certificate in --cert-dir
//	├── tripod-core         on a loopback port
//	└── tripod-extensions   on a loopback port, once more for each --extensions-partition
//
// A flag goes to each service that has a flag of that name. The exceptions, and why, are in routes.go. What the services get
// besides is in plan.go. The services trust each other by certificates of an authority that lives as long as the process, in a
// directory that only its user can read.
package kubeapiserver
