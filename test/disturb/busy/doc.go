// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package busy gives services more work than the machine can do. A service that is busy is not dead: nobody may be refused because a service answers
// late.
//
// A herd is many clients that come at once, as after the restart of an aggregator or of a node pool: each opens a watch, and then all of them get
// every event. A stock kube-apiserver gets slow under such a herd, and refuses no client. docs/design/0001-busy-is-not-dead.md has figures.
//
//	go test -count=1 ./test/disturb/busy                        # one small herd, in which core and the aggregator stand still for 6 s each
//	BUSY=1 go test -count=1 -timeout 2h -v ./test/disturb/busy  # herds of 1,000 and 3,000 watches, beside kube-apiserver
package busy
