// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command faults shows what users notice while a part of Tripod is broken. It runs two replicas of each service and an etcd under load. It breaks
// one thing after the other, repairs it, and checks whether any data was lost.
//
// It does the same to other sides where that makes sense: two stock kube-apiservers; both of these on an etcd of three members; one replica of each
// service; and one kube-apiserver (side.go). Two sides are tested at a time.
//
// Each process has a network namespace and a cgroup, and each etcd a file system of its own. That needs root. Without root, all processes use
// loopback. The command then leaves out the faults that need more, and the table lists them.
//
//	go run ./test/disturb/faults                          # all of it, about 15 minutes
//	go run ./test/disturb/faults -run 'kill|partition'
//	go run ./test/disturb/faults -sides 'single'
//	go run ./test/disturb/faults -alerts                  # which alerts fire, about 40 minutes
//	go run ./test/disturb/faults -list
//
// For each fault, new clients read and write before it, during it, and until the cluster has recovered. They retry nothing. Then the command looks
// for every acknowledged write. It also ends the rights of a user during the fault, who keeps sending requests.
//
// With -alerts, it shows which alerts of the chart fire instead (alerts.go). A Prometheus evaluates the chart's rules, for which time passes faster
// (rules.go, prometheus.go). Each fault says which alerts it fires. If others do, or these do not, the command fails.
//
// Names of kernel objects begin with tripod-faults. If a run was killed, the next one removes what it left. The command uses the binaries in bin/,
// which `make build test-assets` makes. It runs on Linux only.
package main
