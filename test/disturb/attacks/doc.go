// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attacks has clients that mean harm use an aggregator with little memory, and well-meaning ones beside them. The aggregator has to
// live within its memory, and to go on serving the others.
//
// `go test` runs a short form. ATTACKS=full runs the whole: more connections, for longer. Both print how long the others wait before and during
// the attack.
package attacks
