// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/store"
)

func TestEventsAreFromThePastAndSmall(t *testing.T) {
	var i involvement
	require.True(t, i.set([]*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}}}},
		[]Rule{{Group: "*", Events: []string{"*"}}}))
	event := func(rest string) *store.Object {
		return &store.Object{JSON: fmt.Appendf(nil, `{"involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "a", "name": "x"}, %s}`, rest)}
	}
	for _, field := range []string{`"lastTimestamp": "%s"`, `"eventTime": "%s"`, `"series": {"lastObservedTime": "%s"}`} {
		of, err := i.of(event(fmt.Sprintf(field, "9999-01-01T00:00:00Z")))
		require.NoError(t, err)
		assert.LessOrEqual(t, of.SeenAt, time.Now().Unix(), field)
		of, err = i.of(event(fmt.Sprintf(field, "2026-01-01T00:00:00Z")))
		require.NoError(t, err)
		assert.Equal(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), of.SeenAt, field)
	}
	of, err := i.of(event(`"message": "` + strings.Repeat("x", maxEvent) + `"`))
	require.NoError(t, err)
	assert.Nil(t, of)
}
