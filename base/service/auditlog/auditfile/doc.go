// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auditfile is the side of the one process that has the file of an audit log (see package auditlog). It links no API server, so
// that this process may be small.
//
// Both sides send a length of 4 bytes, big endian, and that many bytes. A service sends one or more lines. The writer answers
// with its error, which is empty if there is none.
package auditfile
