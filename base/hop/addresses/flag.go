// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import "github.com/spf13/pflag"

// BackendsFileFlag is the name of the flag that gives a service the file.
const BackendsFileFlag = "backends-file"

// AddBackendsFileFlag adds --backends-file. The lists of servers that it stands for are flags too, as in "--core-servers".
func AddBackendsFileFlag(fs *pflag.FlagSet, path *string, insteadOf string) {
	fs.StringVar(path, BackendsFileFlag, *path,
		"File (YAML or JSON) that says where the replicas of the services are, instead of "+insteadOf+". It is read again when it changes.")
}
