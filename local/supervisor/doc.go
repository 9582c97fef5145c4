// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package supervisor is the part of the drop-in for kube-apiserver that stays: it runs the services, writes the audit log, notifies the
// service manager and renews certificates. It has a program of its own, tripod-supervisor, that links no API server, because the packages
// of Kubernetes take 70 MiB of memory in each process that links them, for as long as it runs.
//
// `tripod kube-apiserver` needs these packages for a moment, to take kube-apiserver's flags. Then it replaces itself:
//
//	tripod kube-apiserver FLAGS
//	   checks the flags, makes a Plan      (package kubeapiserver)
//	   Exec                                 the same process, another program
//	tripod-supervisor
//	   Main                                 runs the Plan
//
// The process keeps its ID, arguments, environment, control group and standard streams, so a service manager notices nothing. It also keeps
// the open files of the plan: the plan itself, which has no name in any directory, the lock on the directory of certificates, and the
// ports that the services will listen at.
package supervisor
