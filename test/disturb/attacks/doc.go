// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attacks lets hostile clients attack an aggregator with little memory, beside well-behaved clients. The aggregator must stay within its
// memory limit and keep serving the others.
//
// `go test` runs a short form. ATTACKS=full runs the full one, with more connections and for longer. Both print how long the others wait before and
// during the attack.
package attacks
