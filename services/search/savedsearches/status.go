// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package savedsearches

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/saved/v1alpha1"
)

// Reasons of the condition Evaluated.
const (
	Counted   = "Counted"
	Forbidden = "Forbidden"
	Invalid   = "Invalid"
	TooMany   = "TooMany"
	Failed    = "Failed"
)

var errTooMany = fmt.Errorf("search counts the %d oldest SavedSearches", Most)

// mostMessage bounds the message of a condition, in bytes: an error may quote a parameter for each of its parts.
const mostMessage = 2048

// judge returns the status of a search that was counted with a result at a moment.
func judge(search *v1alpha1.SavedSearch, matches int64, err error, now metav1.Time) *v1alpha1.SavedSearchStatus {
	status := &v1alpha1.SavedSearchStatus{
		User: search.User(), Matches: &matches, LastEvaluation: &now, ObservedGeneration: search.Generation,
		Conditions: slices.Clone(search.Status.Conditions),
	}
	var before *int64
	if search.Status.User == status.User { // or else these are about other parameters
		before, status.ExceededSince = search.Status.Matches, search.Status.ExceededSince
	}
	evaluated := metav1.Condition{
		Type: v1alpha1.Evaluated, Status: metav1.ConditionFalse, ObservedGeneration: search.Generation, LastTransitionTime: now,
	}
	switch {
	case err == nil:
		evaluated.Status, evaluated.Reason = metav1.ConditionTrue, Counted
	case errors.Is(err, ErrForbidden):
		evaluated.Reason, evaluated.Message = Forbidden, fmt.Sprintf("The user %s may list nothing: an administrator can bind a role to it. "+
			"Other parameters make another user.", status.User)
	case apierrors.IsBadRequest(err):
		evaluated.Reason, evaluated.Message, status.Matches = Invalid, err.Error(), nil
	case errors.Is(err, errTooMany):
		evaluated.Reason, evaluated.Message, status.Matches = TooMany, err.Error(), nil
	default: // what was known stays, and so does the time since when the threshold is exceeded
		evaluated.Reason, evaluated.Message, status.Matches = Failed, err.Error(), before
	}
	if len(evaluated.Message) > mostMessage {
		evaluated.Message = strings.ToValidUTF8(evaluated.Message[:mostMessage], "") + " ..."
	}
	meta.SetStatusCondition(&status.Conditions, evaluated)
	judgeThreshold(search, status, now)
	return status
}

// judgeThreshold sets the condition Exceeded, if there is a threshold.
func judgeThreshold(search *v1alpha1.SavedSearch, status *v1alpha1.SavedSearchStatus, now metav1.Time) {
	threshold := search.Spec.Threshold
	if threshold == nil {
		status.ExceededSince = nil
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.Exceeded)
		return
	}
	exceeded := metav1.Condition{
		Type: v1alpha1.Exceeded, Status: metav1.ConditionFalse, ObservedGeneration: search.Generation, LastTransitionTime: now,
	}
	switch {
	case status.Matches == nil:
		status.ExceededSince, exceeded.Status, exceeded.Reason = nil, metav1.ConditionUnknown, "NotEvaluated"
	case *status.Matches <= threshold.MoreThan:
		status.ExceededSince, exceeded.Reason = nil, "Within"
	default:
		if status.ExceededSince == nil || status.ExceededSince.After(now.Time) { // a time ahead is that of a wrong clock
			status.ExceededSince = &now
		}
		if exceeded.Reason = "NotForLong"; isExceeded(search.Spec.Threshold, status, now.Time) {
			exceeded.Status, exceeded.Reason = metav1.ConditionTrue, "MoreMatches"
		}
	}
	meta.SetStatusCondition(&status.Conditions, exceeded)
}

// isExceeded reports whether there were more matches for as long as a threshold says.
func isExceeded(threshold *v1alpha1.Threshold, status *v1alpha1.SavedSearchStatus, now time.Time) bool {
	if threshold == nil || status.ExceededSince == nil {
		return false
	}
	return now.Sub(status.ExceededSince.Time) >= time.Duration(threshold.ForMinutes)*time.Minute
}
