// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package backendsfile

import "github.com/spf13/pflag"

// Flag is the name of the flag that gives a service the file.
const Flag = "backends-file"

// AddFlag adds --backends-file. The lists of servers that it stands for are flags too, as in "--core-servers".
func AddFlag(fs *pflag.FlagSet, path *string, insteadOf string) {
	fs.StringVar(path, Flag, *path,
		"File (YAML or JSON) that says where the replicas of the services are, instead of "+insteadOf+". It is read again when it changes.")
}
