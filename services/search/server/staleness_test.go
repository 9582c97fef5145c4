// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/store"
)

// age makes the deployments of a cluster look as if they were synced some time ago.
func age(t *testing.T, s *store.Store, cluster string, by time.Duration) {
	t.Helper()
	kinds, err := s.Kinds(t.Context(), cluster)
	require.NoError(t, err)
	for _, kind := range kinds {
		if kind.Resource == "deployments" {
			stream, err := s.OpenStream(t.Context(), cluster, kind)
			require.NoError(t, err)
			require.NoError(t, s.Write(t.Context(), stream, store.Batch{SyncedAt: time.Now().Add(-by)}))
		}
	}
}

func TestAnswersThatAreTooOldAreRefused(t *testing.T) {
	s := newStore(t)
	age(t, s, "west", time.Hour)
	h := NewHandler(s, nil, http.NotFoundHandler())
	for path, want := range map[string]int{
		"resources/apis/apps/v1/deployments":                                                                                                  200,
		"resources/apis/apps/v1/deployments?maxStaleness=2h":                                                                                  200,
		"resources/apis/apps/v1/deployments?maxStaleness=30m":                                                                                 503,
		"resources/apis/apps/v1/deployments?labelSelector=search.clusterpedia.io/max-staleness%3D30m":                                         503,
		"resources/apis/apps/v1/deployments?maxStaleness=30m&clusters=east":                                                                   200,
		"resources/apis/apps/v1/deployments?labelSelector=search.clusterpedia.io/max-staleness%3D30m,search.clusterpedia.io/clusters!%3Dwest": 200,
		"resources/clusters/east/apis/apps/v1/deployments?maxStaleness=30m":                                                                   200,
		"resources/clusters/west/apis/apps/v1/deployments?maxStaleness=30m":                                                                   503,
		"resources/clusters/west/apis/apps/v1/namespaces/default/deployments/web?maxStaleness=30m":                                            503,
		"resources/clusters/west/apis/apps/v1/namespaces/default/deployments/web?maxStaleness=2h":                                             200,
		"resources/clusters/west/apis/apps/v1/namespaces/default/deployments/web?maxStaleness=soon":                                           400,
		"resources/api/v1/pods?maxStaleness=30m":                                                                                              200,
	} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		assert.Equal(t, want, answer.Code, "%s: %s", path, answer.Body)
		if want != http.StatusServiceUnavailable {
			continue
		}
		assert.Equal(t, "1", answer.Header().Get("Retry-After"), path)
		var status metav1.Status
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &status))
		assert.Equal(t, metav1.StatusReasonServiceUnavailable, status.Reason)
		assert.Equal(t, "clusters older than maxStaleness=30m0s, 1 of them: west", status.Message)
		assert.Equal(t, []metav1.StatusCause{{Type: causeStale, Field: "clusters[west]", Message: "it was not synced for 1h0m0s"}}, status.Details.Causes)
	}
}

func TestWatchesThatAreTooOldAreRefused(t *testing.T) {
	s := newStore(t)
	age(t, s, "west", time.Hour)
	h := NewHandler(s, nil, nil)
	for _, parameters := range []string{"", "&resourceVersion=5", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"} {
		answer, _ := ask(t, h, http.MethodGet, watchedPath+"&maxStaleness=30m"+parameters, "")
		assert.Equal(t, http.StatusServiceUnavailable, answer.Code, parameters)
		assert.Equal(t, "1", answer.Header().Get("Retry-After"), parameters)
		assert.Contains(t, answer.Body.String(), "clusters[west]", parameters)
	}
}

func TestAWatchEndsWhenAClusterBecomesTooOld(t *testing.T) {
	s := newStore(t)
	at := serverOf(t, NewHandler(s, nil, nil)) + watchedPath + "&resourceVersion=10&maxStaleness=2s&clusters="
	age(t, s, "east", -time.Hour)
	age(t, s, "west", 0)
	fresh, old := open(t, at+"east", ""), open(t, at+"east,west", "")
	end := old()
	require.NotNil(t, end)
	assert.Equal(t, "ERROR", end.Type)
	assert.Equal(t, http.StatusServiceUnavailable, end.Object.Code)
	assert.Equal(t, "clusters older than maxStaleness=2s, 1 of them: west", end.Object.Message)
	assert.Nil(t, old())
	stream, err := s.OpenStream(t.Context(), "east", kinds["D"])
	require.NoError(t, err)
	require.NoError(t, s.Write(t.Context(), stream, store.Batch{Changes: []store.Change{change("a", "x", "1", nil)}}))
	assert.Equal(t, []string{"ADDED x 11"}, take(t, fresh, 1), "a watch of a cluster that was synced goes on")
}

func TestAgesAreReportedOnRequest(t *testing.T) {
	s := newStore(t)
	age(t, s, "east", 90*time.Second)
	age(t, s, "west", time.Hour)
	h := NewHandler(s, nil, http.NotFoundHandler())
	for path, want := range map[string]string{
		"resources/apis/apps/v1/deployments":                                                            "",
		"resources/apis/apps/v1/deployments?withStaleness=true":                                         `^west=360\d\.\d, east=9\d\.\d$`,
		"resources/apis/apps/v1/deployments?labelSelector=search.clusterpedia.io/with-staleness":        `^west=360\d\.\d, east=9\d\.\d$`,
		"resources/api/v1/pods?withStaleness=true":                                                      `^west=\d\.\d$`,
		"resources/clusters/east/apis/apps/v1/namespaces/default/deployments/db?withStaleness=true":     `^east=9\d\.\d$`,
		"resources/clusters/east/apis/apps/v1/namespaces/default/deployments/db?withRemainingCount=yes": "",
	} {
		answer, _ := ask(t, h, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, answer.Code, answer.Body)
		got := answer.Header().Get("Search-Staleness")
		if want == "" {
			assert.Empty(t, got, path)
			continue
		}
		assert.Regexp(t, want, got, path)
	}
}

func TestCollectionsTellAndRefuseAsLists(t *testing.T) {
	s := newStore(t)
	age(t, s, "west", time.Hour)
	h := NewHandler(s, nil, nil)
	answer, _ := ask(t, h, http.MethodGet, "collectionresources/any?groups=apps&withStaleness=true", "")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Regexp(t, `^west=360\d\.\d, east=\d\.\d$`, answer.Header().Get("Search-Staleness"))
	_, err := collectionOf(t, h, "any", "groups=apps&maxStaleness=1m")
	require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	assert.Len(t, err.(apierrors.APIStatus).Status().Details.Causes, 1)
}

func TestNamesOfStaleClustersAreBounded(t *testing.T) {
	syncedAt := map[string]time.Time{"never": {}}
	for i := range 2 * namedStale {
		syncedAt[fmt.Sprintf("c%03d", i)] = time.Now().Add(-time.Duration(i) * time.Minute)
	}
	assert.Regexp(t, `^never=inf, c199=\d+\.\d, c198=`, stalenessOf(syncedAt))
	assert.NotContains(t, stalenessOf(syncedAt), "c001")
	var status apierrors.APIStatus
	require.ErrorAs(t, asStale(&store.StaleError{Max: time.Second, SyncedAt: syncedAt}), &status)
	causes := status.Status().Details.Causes
	require.Len(t, causes, namedStale)
	assert.Equal(t, metav1.StatusCause{Type: causeStale, Field: "clusters[never]", Message: "its first list is not complete yet"}, causes[0])
	assert.Contains(t, status.Status().Message, "clusters older than maxStaleness=1s, 201 of them: never, c199, ")
}
