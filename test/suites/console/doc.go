// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console uses `tripod console` with a browser. It needs chromium: without it, the tests are skipped, and TEST_CHROMIUM=1 makes that an
// error.
//
// testdata/axe.min.js.gz is axe-core of npm (MPL 2.0), unchanged but compressed. It looks for what people with a screen reader or a keyboard cannot
// use.
package console
