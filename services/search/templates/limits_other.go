// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package templates

import (
	"errors"
	"time"
)

// self is empty: only Linux has the limits.
const self = ""

func restrict(int64) error {
	return errors.New("ClusterImportPolicies need Linux, which limits the memory of their templates")
}

func processorTime() time.Duration { return 0 }
