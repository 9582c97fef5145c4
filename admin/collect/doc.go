// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package collect writes an archive of the state of an instance of Tripod, for `tripod debug collect`.
//
//	API      versions, health, states, metrics, flags and profiles of all replicas, through an aggregator
//	Release  a Helm release: values, pods, workloads, events, logs, and its API
//	Files    logs and manifests of this machine
//
// The archive has no secrets. Sources add facts about the instance, and no object as a whole. A [Scrubber] then looks at each
// text for what is left: keys and tokens by their form, and the values of all Secrets that the user may read.
package collect
