// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command faults shows what users see of Tripod while something is broken: it runs two replicas of each service and an etcd under a
// load, breaks one thing after the other, mends it, and looks whether anything was lost. It does the same to two stock kube-apiservers
// where that makes sense, to both on an etcd of three members, and to one replica of each service and one kube-apiserver. These sides are in
// side.go. Two of them are broken at a time.
//
// Each process has a network namespace, a cgroup and, for etcd, a file system of its own, which needs root. Without root all processes
// are on loopback, and the faults that need more are left out, which the table says.
//
//	go run ./test/disturb/faults                          # all of it, about 15 minutes
//	go run ./test/disturb/faults -run 'kill|partition'
//	go run ./test/disturb/faults -sides 'single'
//	go run ./test/disturb/faults -list
//
// For each fault, new clients read and write for a while before, while it lasts and until all is well again. They repeat no request. Then
// all that they were told was written is looked for. A user, whose rights end while the fault lasts, goes on asking.
//
// Names of kernel objects begin with tripod-faults; the next run removes what a run that was killed has left. The binaries are those in bin/;
// `make build test-assets` makes them. Linux only.
package main
