// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServersAreLeftOutOrDemanded(t *testing.T) {
	absent := executable{"no-such-package", "no-such-program", "/nonexistent/*"}
	for kind, s := range servers {
		t.Run(kind, func(t *testing.T) {
			t.Setenv(s.variable, "0")
			assert.ErrorContains(t, Missing(kind), s.variable+"=0")
			programs := s.programs
			t.Cleanup(func() { servers[kind] = server{s.variable, programs} })
			servers[kind] = server{s.variable, []executable{absent}}
			t.Setenv(s.variable, "")
			err := Missing(kind)
			require.ErrorContains(t, err, "apt-get install no-such-package")
			assert.ErrorContains(t, err, s.variable+"=1")
			t.Setenv(s.variable, "1")
			assert.NoError(t, Missing(kind), "a demanded server is started, which fails")
		})
	}
}

func TestDatabasesWithoutServersTestSQLite(t *testing.T) {
	t.Setenv("TEST_POSTGRES", "0")
	t.Setenv("TEST_MARIADB", "0")
	databases, err := Start()
	require.NoError(t, err)
	defer databases.Stop()
	var tested []string
	databases.Each(t, func(_ *testing.T, url string) { tested = append(tested, url) })
	require.Len(t, tested, 1)
	assert.Contains(t, tested[0], "sqlite:")
}
