// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auditlog lets several services write one audit log. One process has the file, with kube-apiserver's rotation. It writes whole
// lines for the other processes, which reach it through a Unix socket.
//
// A service waits until its line is written, and gets an error if it cannot be. So --audit-log-mode means what it means in kube-apiserver:
// a response waits for its event, and with blocking-strict a request fails if its event is lost.
//
// This package is the side of the services. Package auditfile writes the file.
package auditlog
