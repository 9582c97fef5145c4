// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auditlog has several services write one audit log: one process has the file, with kube-apiserver's rotation, and
// writes whole lines for the others, which reach it by a Unix socket.
//
// A service waits until its line is written, and learns if it could not be, so that --audit-log-mode means what it does where the
// server itself writes: a response that waits for its event does, and with blocking-strict a request fails whose event is lost.
//
// Both sides send a length of 4 bytes, big endian, and as many bytes: the service a line, or several, the writer what went wrong.
package auditlog
