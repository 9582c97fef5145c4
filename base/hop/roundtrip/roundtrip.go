// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roundtrip makes an http.RoundTripper of a function.
package roundtrip

import "net/http"

// Func is a function that implements http.RoundTripper.
type Func func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f Func) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
