// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package busy gives services more work than the machine can do. A service that is busy is not dead: no client may be refused because a service answers
// late.
//
// A herd is many clients that come at once, as after the restart of an aggregator or of a node pool: each opens a watch, and then all of them get
// every event. A stock kube-apiserver gets slow under such a herd, and refuses no client. docs/design/0001-busy-is-not-dead.md has figures.
//
//	go test -count=1 ./test/disturb/busy                           # one small herd, in which core, the aggregator and etcd stand still for 6 s each
//	make busy                                                      # all scenarios, beside kube-apiserver, with a table; about 25 minutes
//	BUSY=full go test -v -timeout 2h -run 'TestScenarios/3,000' ./test/disturb/busy   # some of them
//
// A scenario is a herd that comes at a bad moment: after a kill, beside busy processes, in a cgroup of half a processor, while processes or etcd stop.
// Stopping etcd for three quarters of the time stands for a slow disk. Tripod may lose no more than kube-apiserver does.
package busy
