// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bindaddress is a flag that says where a service serves something beside its API: at a port of its own, or nowhere.
package bindaddress

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

// Flag is such a flag.
type Flag struct {
	// Name is that of the flag, without dashes, and Usage what it is for.
	Name, Usage string
	// Address is its value, host:port. Empty is nowhere.
	Address string
}

// AddFlags adds the flag.
func (f *Flag) AddFlags(fs *pflag.FlagSet) { fs.StringVar(&f.Address, f.Name, f.Address, f.Usage) }

// Validate returns what is wrong with the value.
func (f *Flag) Validate() []error {
	if f.Address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.Address); err != nil {
		return []error{fmt.Errorf("--%s: %w", f.Name, err)}
	}
	return nil
}

// Listen takes the port. It returns nil where nothing is to be served.
func (f *Flag) Listen() (net.Listener, error) {
	if f.Address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", f.Address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", f.Name, err)
	}
	return listener, nil
}
