// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package savedsearches

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tripod-k8s/tripod/services/search/apis/saved/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/hub"
)

var start = time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)

// searchFor returns a search with a threshold of more than 2 for 5 minutes.
func searchFor(name, words string) *v1alpha1.SavedSearch {
	return &v1alpha1.SavedSearch{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec: v1alpha1.SavedSearchSpec{
			Parameters: map[string]v1alpha1.Value{"words": v1alpha1.Value(words), "groups": "*"},
			Threshold:  &v1alpha1.Threshold{MoreThan: 2, ForMinutes: 5},
		},
	}
}

func TestOtherParametersAreOfAnotherUser(t *testing.T) {
	t.Parallel()
	one := searchFor("one", "failed")
	changed := searchFor("one", "failed")
	changed.Spec.Description, changed.Spec.Threshold, changed.Spec.IntervalSeconds = "x", nil, 90
	changed.Status.User = "system:admin"
	assert.Equal(t, one.User(), changed.User(), "rights are for the parameters")
	assert.True(t, strings.HasPrefix(one.User(), "system:saved-search:one:"))
	users := map[string]bool{one.User(): true}
	for _, other := range []*v1alpha1.SavedSearch{searchFor("one", "secret"), searchFor("two", "failed"), searchFor("one", "failed&groups=*")} {
		assert.False(t, users[other.User()], other.User())
		users[other.User()] = true
	}
}

func TestStatusesSayWhatWasFound(t *testing.T) {
	t.Parallel()
	at := func(minutes int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(minutes) * time.Minute)) }
	search := searchFor("one", "failed")
	for _, step := range []struct {
		minute, matches              int
		err                          error
		want                         int64
		evaluated, exceeded, message string
	}{
		{0, 2, nil, 2, Counted, "Within", ""},
		{1, 3, nil, 3, Counted, "NotForLong", ""},
		{5, 9, nil, 9, Counted, "NotForLong", ""},
		{6, 3, nil, 3, Counted, "MoreMatches", ""},
		{7, 0, apierrors.NewTimeoutError("slow", 1), 3, Failed, "MoreMatches", "slow"},
		{8, 0, fmt.Errorf("wrapped: %w", ErrForbidden), 0, Forbidden, "Within", search.User()},
		{9, 0, apierrors.NewBadRequest("no such parameter"), -1, Invalid, "NotEvaluated", "no such parameter"},
		{10, 0, errTooMany, -1, TooMany, "NotEvaluated", "100"},
		{11, 4, nil, 4, Counted, "NotForLong", ""},
	} {
		status := judge(search, int64(step.matches), step.err, at(step.minute))
		evaluated := meta.FindStatusCondition(status.Conditions, v1alpha1.Evaluated)
		exceeded := meta.FindStatusCondition(status.Conditions, v1alpha1.Exceeded)
		require.NotNil(t, evaluated)
		require.NotNil(t, exceeded)
		matches := int64(-1)
		if status.Matches != nil {
			matches = *status.Matches
		}
		assert.Equal(t, step.want, matches, "minute %d", step.minute)
		assert.Equal(t, step.evaluated, evaluated.Reason, "minute %d", step.minute)
		assert.Equal(t, step.exceeded, exceeded.Reason, "minute %d", step.minute)
		assert.Equal(t, step.exceeded == "MoreMatches", exceeded.Status == metav1.ConditionTrue, "minute %d", step.minute)
		assert.Contains(t, evaluated.Message, step.message)
		assert.Equal(t, search.User(), status.User)
		assert.Equal(t, at(step.minute), *status.LastEvaluation)
		search.Status = *status
	}
	search.Spec.Threshold = nil
	status := judge(search, 9, nil, at(12))
	assert.Nil(t, meta.FindStatusCondition(status.Conditions, v1alpha1.Exceeded), "without a threshold")
	assert.Nil(t, status.ExceededSince)
}

func TestAStatusIsAboutPresentParameters(t *testing.T) {
	t.Parallel()
	search, later := searchFor("one", "failed"), metav1.NewTime(start.Add(time.Hour))
	search.Status = *judge(search, 9, nil, metav1.NewTime(start))
	assert.Equal(t, metav1.NewTime(start), *judge(search, 9, nil, later).ExceededSince)
	search.Spec.Parameters["words"] = "other"
	assert.Equal(t, later, *judge(search, 9, nil, later).ExceededSince)
	failed := judge(search, 0, apierrors.NewTimeoutError("slow", 1), later)
	assert.Nil(t, failed.Matches)
	assert.Nil(t, failed.ExceededSince)
}

func TestAWrongClockDelaysNoAlert(t *testing.T) {
	t.Parallel()
	search, now := searchFor("one", "failed"), metav1.NewTime(start)
	search.Status = *judge(search, 9, nil, metav1.NewTime(start.Add(24*time.Hour)))
	assert.Equal(t, now, *judge(search, 9, nil, now).ExceededSince)
}

func TestMessagesFitIntoConditions(t *testing.T) {
	t.Parallel()
	status := judge(searchFor("one", "failed"), 0, apierrors.NewBadRequest(strings.Repeat("ä", 30000)), metav1.NewTime(start))
	message := status.Conditions[0].Message
	assert.LessOrEqual(t, len(message), mostMessage+4)
	assert.True(t, utf8.ValidString(message) && strings.HasSuffix(message, " ..."))
}

func TestAPatchRemovesWhatIsNoMore(t *testing.T) {
	t.Parallel()
	patch, err := patchOf(judge(searchFor("one", "failed"), 0, errTooMany, metav1.NewTime(start)))
	require.NoError(t, err)
	for _, field := range []string{"counting", "exceededSince", "matches"} {
		value, has := patch[field]
		assert.True(t, has && value == nil, field)
	}
}

func TestSearchesAreCountedInTime(t *testing.T) {
	t.Parallel()
	s := &Searches{now: func() time.Time { return start }}
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: start.Add(-d)} }
	counting := func(ago time.Duration, generation int64) *v1alpha1.Counting {
		return &v1alpha1.Counting{Since: metav1.NewMicroTime(start.Add(-ago)), Generation: generation}
	}
	for name, test := range map[string]struct {
		status   v1alpha1.SavedSearchStatus
		interval int64
		due      bool
	}{
		"new":                               {due: true},
		"another replica counts":            {status: v1alpha1.SavedSearchStatus{Counting: counting(50*time.Second, 1)}},
		"another replica is gone":           {status: v1alpha1.SavedSearchStatus{Counting: counting(attemptTime, 1)}, due: true},
		"the clock of another one is wrong": {status: v1alpha1.SavedSearchStatus{Counting: counting(-time.Hour, 1)}, due: true},
		"changed while another one counts":  {status: v1alpha1.SavedSearchStatus{Counting: counting(0, 0)}, due: true},
		"counted":                           {status: v1alpha1.SavedSearchStatus{LastEvaluation: ago(59 * time.Second), ObservedGeneration: 1}},
		"counted an interval ago":           {status: v1alpha1.SavedSearchStatus{LastEvaluation: ago(time.Minute), ObservedGeneration: 1}, due: true},
		"with another interval":             {status: v1alpha1.SavedSearchStatus{LastEvaluation: ago(time.Minute), ObservedGeneration: 1}, interval: 90},
		"with an interval that is too short": {
			status: v1alpha1.SavedSearchStatus{LastEvaluation: ago(29 * time.Second), ObservedGeneration: 1}, interval: 1,
		},
		"changed since": {status: v1alpha1.SavedSearchStatus{LastEvaluation: ago(time.Second), ObservedGeneration: 0}, due: true},
	} {
		search := searchFor("one", "failed")
		search.Status, search.Spec.IntervalSeconds = test.status, test.interval
		assert.Equal(t, test.due, s.isDue(search), name)
	}
}

func TestMetricsAreThoseOfStatuses(t *testing.T) {
	t.Parallel()
	s := &Searches{now: func() time.Time { return start.Add(10 * time.Minute) }}
	long, short, failing, quiet, created := searchFor("long", "a"), searchFor("short", "a"), searchFor("failing", "a"), searchFor("quiet", "a"), searchFor("new", "a")
	long.Status = *judge(long, 7, nil, metav1.NewTime(start))
	short.Status = *judge(short, 7, nil, metav1.NewTime(start.Add(6*time.Minute)))
	failing.Status = *judge(failing, 0, ErrForbidden, metav1.NewTime(start))
	quiet.Spec.Threshold = nil
	quiet.Status = *judge(quiet, 7, nil, metav1.NewTime(start))
	s.know([]*v1alpha1.SavedSearch{long, short, failing, quiet, created}, nil)
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(s.Collector())
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP tripod_search_saved_exceeded [ALPHA] 1 if a SavedSearch has had more matches than its threshold for as long as that says, or else 0.
		# TYPE tripod_search_saved_exceeded gauge
		tripod_search_saved_exceeded{name="failing"} 0
		tripod_search_saved_exceeded{name="long"} 1
		tripod_search_saved_exceeded{name="new"} 0
		tripod_search_saved_exceeded{name="short"} 0
		# HELP tripod_search_saved_failing [ALPHA] 1 if the last count of a SavedSearch had no answer, or else 0. Its condition Evaluated says why. The name * stands for all, if search cannot read them.
		# TYPE tripod_search_saved_failing gauge
		tripod_search_saved_failing{name="failing"} 1
		tripod_search_saved_failing{name="long"} 0
		tripod_search_saved_failing{name="quiet"} 0
		tripod_search_saved_failing{name="short"} 0
		# HELP tripod_search_saved_matches [ALPHA] Objects that a SavedSearch finds, by the rights of its user. Each replica that serves has the same number, that of the status.
		# TYPE tripod_search_saved_matches gauge
		tripod_search_saved_matches{name="failing"} 0
		tripod_search_saved_matches{name="long"} 7
		tripod_search_saved_matches{name="quiet"} 7
		tripod_search_saved_matches{name="short"} 7
	`)))
}

func TestUnreadableSearchesFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"too many": {hub.ErrTooMany, `
			# HELP tripod_search_saved_failing [ALPHA] 1 if the last count of a SavedSearch had no answer, or else 0. Its condition Evaluated says why. The name * stands for all, if search cannot read them.
			# TYPE tripod_search_saved_failing gauge
			tripod_search_saved_failing{name="*"} 1
		`},
		"no such kind": {fmt.Errorf("%w: %w", hub.ErrUnread, apierrors.NewNotFound(resource.GroupResource(), "")), ""},
	} {
		s := &Searches{now: time.Now}
		s.know([]*v1alpha1.SavedSearch{searchFor("one", "a")}, nil)
		s.fail(test.err)
		registry := metrics.NewKubeRegistry()
		registry.CustomMustRegister(s.Collector())
		assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(test.want)), name)
	}
}
