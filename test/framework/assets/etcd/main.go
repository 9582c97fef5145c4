// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command etcd is the stock etcd server, built from go.mod for test tools that start an
// etcd binary themselves, such as controller-runtime's envtest.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
