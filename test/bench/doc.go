// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what Tripod costs: it runs a stock kube-apiserver and Tripod one after the other, each with an etcd
// of its own, has them do the same, and compares.
//
// In each round each side is started anew, in the opposite order of the round before, and runs all workloads: first at a
// fixed rate, the same for all sides, at which times and processor time are measured; then in a closed loop, to see how
// much it can do. Results are medians of the rounds. Processor time is that of all processes of the API server; that of
// etcd is shown beside it, that of this command is not in it.
//
// There are three sides: stock, Tripod with the garbage collection of stock, and Tripod with its own settings. Afterwards all
// workloads are run once more for profiles, and CRDs come in numbers, while built-in resources are read and written.
//
// Variants are further sides: other binaries of Tripod, or the same with another environment. Without stock, all are compared with the first
// of them. A neighbour that keeps the caches and the memory busy shows what a change is worth on a machine that is shared.
//
//	go run ./test/bench                        # all of it, about 25 minutes
//	go run ./test/bench -run 'GET|APPLY' -rounds 5
//	go run ./test/bench -short -run CRDs
//
// The binaries are those in bin/; `make build test-assets` makes them. Linux only.
package main
