// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas runs replicas of Tripod's services as processes on this machine.
//
// [Services] has what one replica needs: the binary, the certificates by which services trust each other, and the ports and flags by
// which they find each other. A [Fleet] runs any number of replicas of each service. It changes that number without losing a request: a new
// replica gets requests once it is ready, and a replica gets no new requests before it gets the signal to stop.
package replicas
