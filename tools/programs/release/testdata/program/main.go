// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command program stands for each binary of a release in tests. It is small, and linked from another module.
package main

import (
	"fmt"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() { fmt.Println(cdx.NewBOM().BOMFormat) }
