// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build goexperiment.jsonv2 && !go1.27

package member

// With this experiment, Go 1.26 has its own encoding/json/v2, which does not know the option "embed": objects would lose their fields
// without an error.
var _ = doNotBuildSearchWithGOEXPERIMENTjsonv2
