// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what Tripod costs. It runs a stock kube-apiserver and Tripod beside each other, each with an etcd of its own,
// sends both the same load, one after the other, and compares.
//
// Each workload runs on one side after the other, in each round in the opposite order of the round before: first at a fixed rate, the
// same for all sides, to measure times and processor time; then in a closed loop, to see how much the side can do. Results are medians of
// the rounds. Processor time is that of all processes of the API server. That of etcd is shown beside it, and that of this command is not
// included.
//
// The sides are three: stock, stock once more, which shows the noise, and Tripod. Afterwards bench runs all workloads once more for
// profiles, and installs many CRDs while clients read and write built-in resources. ONE PROCESSOR is small requests and watches with
// GOMAXPROCS=1 in all servers.
//
// It also compares three ways to an API service of others (API SERVICES), each with two replicas: k8s.io/sample-apiserver as an aggregated
// API server behind stock, the same behind Tripod, and examples/wardle as a backend of Tripod.
//
// Variants are more sides: other binaries of Tripod, or the same ones in another environment. Without stock, the first of them is the
// base of the comparison. A neighbour that keeps the caches and the memory busy shows what a change is worth on a shared machine.
//
// With -shapes, bench has a whole cluster live on each control plane instead: nodes join, pods run, are rolled and deleted, by the
// controllers of Kubernetes and kwok.
//
//	go run ./lab/bench                        # all of it, about 50 minutes; 70 with -neighbour both
//	go run ./lab/bench -run 'GET|APPLY' -rounds 5
//	go run ./lab/bench -short -run CRDs
//	go run ./lab/bench -shapes stock,1/1/1 -nodes 300 -pods 3000
//	go run ./lab/bench -run 'API SERVICES'
//
// The binaries are those in bin/; `make build wardle test-assets` builds them. Linux only.
package main
