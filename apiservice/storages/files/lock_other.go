// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package files

import (
	"errors"
	"os"
)

func lock(*os.Root) (*os.File, error) {
	return nil, errors.New("objects are kept in files on Linux, macOS and other Unix systems only")
}
