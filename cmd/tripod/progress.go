// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/grpclog"

	"github.com/tripod-k8s/tripod/local/process"
)

// progressTo returns a function that prints a line with the time since progressTo was called.
func progressTo(out io.Writer) func(line string) {
	began := time.Now()
	return func(line string) {
		fmt.Fprintf(out, "%7s  %s\n", process.Seconds(time.Since(began)), line)
	}
}

// silenceGRPC stops the log of gRPC, the protocol of etcd. It would repeat the errors that commands return.
func silenceGRPC() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}
