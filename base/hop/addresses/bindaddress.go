// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

// BindFlag is such a flag.
type BindFlag struct {
	// Name is that of the flag, without dashes, and Usage what it is for.
	Name, Usage string
	// Address is its value, host:port. Empty is nowhere.
	Address string
}

// AddFlags adds the flag.
func (f *BindFlag) AddFlags(fs *pflag.FlagSet) { fs.StringVar(&f.Address, f.Name, f.Address, f.Usage) }

// Validate returns what is wrong with the value.
func (f *BindFlag) Validate() []error {
	if f.Address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.Address); err != nil {
		return []error{fmt.Errorf("--%s: %w", f.Name, err)}
	}
	return nil
}

// Listen takes the port. It returns nil where nothing is to be served.
func (f *BindFlag) Listen() (net.Listener, error) {
	if f.Address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", f.Address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", f.Name, err)
	}
	return listener, nil
}
