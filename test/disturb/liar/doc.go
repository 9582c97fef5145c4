// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package liar puts a false replica of extensions, which has the certificate of the service, behind an aggregator, and
// aggregated API servers whose HTTP/2 is wrong.
package liar
