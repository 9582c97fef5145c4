// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package query reads what a search asks for: the parameters of the URL, and the labels that kubectl users write in their place.
//
// The names and formats are those of Clusterpedia 0.9, so that its clients work unchanged. A parameter that is unknown is an error, and so
// is a value that cannot be meant.
package query
