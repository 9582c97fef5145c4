// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package searchclient reads search for the console, with the credentials of the caller. Its transport refuses each request that could
// change something, follows no redirects, and bounds answers.
package searchclient
