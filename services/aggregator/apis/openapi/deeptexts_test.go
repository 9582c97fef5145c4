// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each line of a text 240 levels deep would have 960 blanks in protobuf.
func TestLinesOfDeepTextsTakeNoMemory(t *testing.T) {
	for name, value := range map[string]string{
		"line breaks": `"` + strings.Repeat(`x\n`, 30_000) + `"`, "blanks": `"` + strings.Repeat("x ", 30_000) + `"`,
		"values": "[" + strings.Repeat("1,", 30_000) + "1]",
	} {
		t.Run(name, func(t *testing.T) {
			const levels = 240
			deep := strings.Repeat(`{"a":`, levels) + value + strings.Repeat("}", levels)
			_, err := OfGroupVersion([]byte(swagger(boatsPath, `"Boat":{"type":"object","x-deep":`+deep+`}`)), boats)
			assert.ErrorIs(t, err, errDeepTexts)
			flat := `{"a":` + value + `}`
			_, err = OfGroupVersion([]byte(swagger(boatsPath, `"Boat":{"type":"object","x-flat":`+flat+`}`)), boats)
			assert.NoError(t, err)
		})
	}
}
