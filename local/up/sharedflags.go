// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"slices"
	"strings"
)

// SharedFlags are the flags of the services that must be the same for all of them.
var SharedFlags = []string{"feature-gates", emulatedVersion, "min-compatibility-version", "runtime-config"}

// sharedArguments returns the flags for all services.
func (o *Options) sharedArguments() []string {
	var args []string
	for _, name := range SharedFlags {
		for _, value := range o.Shared[name] {
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}

// validateShared returns an error if services would get different values of a shared flag. The aggregator would wait in vain for
// services that agree with it.
func (o *Options) validateShared() error {
	for _, name := range SharedFlags {
		core := valuesOf(name, o.CoreArgs)
		for _, args := range [][]string{o.ExtensionsArgs, o.AggregatorArgs} {
			if !slices.Equal(core, valuesOf(name, args)) {
				return fmt.Errorf("--%s must be the same for all services: give it once, and not as --core-arg, "+
					"--extensions-arg or --aggregator-arg", name)
			}
		}
	}
	return o.validateEmulated()
}

// valuesOf returns the values of a flag in args, as in --name=value and --name value.
func valuesOf(name string, args []string) []string {
	var values []string
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			values = append(values, value)
		} else if arg == "--"+name && i+1 < len(args) {
			values = append(values, args[i+1])
		}
	}
	return values
}
