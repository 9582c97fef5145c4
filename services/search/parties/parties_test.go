// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package parties

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNoClusterIsThePartyOfAnotherOne holds for any text.
func TestNoClusterIsThePartyOfAnotherOne(t *testing.T) {
	for _, text := range []string{"", "web", "fleet", "fleet prod"} {
		assert.Equal(t, OfCluster("evil"), Of("evil", text), "%q", text)
	}
	for _, party := range []Party{OfPolicy("fleet", "prod"), OfPolicy("fleet", ""), OfPolicy("web", "")} {
		assert.True(t, party.IsShared())
		assert.Equal(t, party, Of("web", party.Text()))
		assert.NotEqual(t, OfCluster("web"), party)
	}
	assert.Empty(t, OfCluster("web").Text())
	assert.False(t, OfCluster("web").IsShared())
	assert.False(t, Party{}.IsShared())
}
