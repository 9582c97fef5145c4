// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package servicegrpc

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

const bindAddressFlag = "grpc-bind-address"

// Options say where a service serves the others by gRPC.
type Options struct {
	// BindAddress is host:port. Empty is nowhere.
	BindAddress string
}

// AddFlags adds --grpc-bind-address.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, bindAddressFlag, o.BindAddress,
		"Address (host:port) that serves Tripod's other services by gRPC with mutual TLS. Empty serves them nowhere.")
}

// Validate returns what is wrong with the flags.
func (o *Options) Validate() []error {
	if o.BindAddress == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.BindAddress); err != nil {
		return []error{fmt.Errorf("--%s: %w", bindAddressFlag, err)}
	}
	return nil
}

// Listen takes the port. It returns nil where nothing is to be served.
func (o *Options) Listen() (net.Listener, error) {
	if o.BindAddress == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", o.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", bindAddressFlag, err)
	}
	return listener, nil
}
