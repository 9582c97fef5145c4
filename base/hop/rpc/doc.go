// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rpc connects the services by gRPC: mTLS with the service CA, where both ends verify each other by the names of
// services. Certificates and CAs are read at every handshake, so that new ones are in force without a restart.
package rpc
