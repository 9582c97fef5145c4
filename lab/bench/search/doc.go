// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command search measures search, beside Clusterpedia if its programs are given.
//
// Both copy the same objects of the same members, two kube-apiservers, into databases of the same PostgreSQL, one after the other. Then bench asks both the
// same. At last, search alone copies a million objects of members that bench itself plays, and answers searches among them, those by words and of the
// console included.
//
// Objects of the members are written into their etcd, so that no request waits for admission. They are applications: a Deployment with its ReplicaSet and
// six pods, a Service and a ConfigMap.
//
//	go run ./lab/bench/search                                        # search alone
//	go run ./lab/bench/search -clusterpedia DIR                      # beside DIR/clustersynchro-manager and DIR/apiserver
//	go run ./lab/bench/search -objects 10000 -many 50000 -duration 2s
//	go run ./lab/bench/search -run MANY -many 1000000
//	go run ./lab/bench/search -run CONSOLE -clusters 100 -docs docs/benchmarks-search.md   # writes one section of the page
//
// The binaries of Tripod are those in bin/; `make build test-assets` builds them. PostgreSQL is that of the machine. Linux only.
package main
