// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/services/search/options"
)

// TestThePageHasAllBudgets compares the table of the reference with the code.
func TestThePageHasAllBudgets(t *testing.T) {
	serve, sync := options.New(), options.New()
	serve.Roles, sync.Roles = []string{string(options.Serve)}, []string{string(options.Sync)}
	mebibytes := func(of []Budget, part string) string {
		for _, b := range of {
			if b.Part == part {
				return fmt.Sprint(b.Bytes >> 20)
			}
		}
		return ""
	}
	var table strings.Builder
	for _, b := range Budgets(options.New()) {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", b.Part, mebibytes(Budgets(serve), b.Part), mebibytes(Budgets(sync), b.Part))
	}
	fmt.Fprintf(&table, "| **together** | **%d** | **%d** |\n", Sum(Budgets(serve))>>20, Sum(Budgets(sync))>>20)
	page, err := os.ReadFile("../../../docs/search-reference.md")
	require.NoError(t, err)
	assert.True(t, strings.Contains(string(page), table.String()), "docs/search-reference.md lacks this table:\n%s", &table) // the page is long
}
