// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import "github.com/tripod-k8s/tripod/base/hop/addresses"

// NewFlag returns the flag --grpc-bind-address, which says where a service serves the others by gRPC.
func NewFlag() addresses.BindFlag {
	return addresses.BindFlag{
		Name:  "grpc-bind-address",
		Usage: "Address (host:port) that serves Tripod's other services by gRPC with mutual TLS. Empty serves them nowhere.",
	}
}
