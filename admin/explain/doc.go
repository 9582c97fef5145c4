// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain predicts the fate of a request, without sending it: which service would serve it and by which rule, by the table of
// the aggregator, and whether a user may do that, by an access review of the API.
package explain
