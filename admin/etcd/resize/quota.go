// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// exceededQuota is how admission refuses an object, and how the controller of StatefulSets reports it.
var exceededQuota = regexp.MustCompile(`exceeded quota: ([^,\s]+), requested: (.+)$`)

// quotaIn returns an error that names the ResourceQuota in the text of a refusal, or nil if none refused.
func quotaIn(text string) error {
	found := exceededQuota.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	return fmt.Errorf("the ResourceQuota %s has no room for it (requested: %s)", found[1], found[2])
}

// checkQuota returns the ResourceQuota that keeps the StatefulSet from creating the pod of a member, or its volume. Otherwise, and if the
// user may not list events, it returns nil.
func (r *resizer) checkQuota(ctx context.Context) error {
	events, err := r.Client.CoreV1().Events(r.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": "StatefulSet", "involvedObject.name": r.set, "reason": "FailedCreate",
	}.String()})
	if err != nil {
		return nil //nolint:nilerr // it is only a reason for something that failed
	}
	var last metav1.Time
	var refused error
	for i := range events.Items {
		if e := &events.Items[i]; !e.LastTimestamp.Before(&last) {
			last, refused = e.LastTimestamp, quotaIn(e.Message)
		}
	}
	return refused
}

// notRecreated explains why the API server would not make the StatefulSet anew. Until the former one is gone and no longer counted, a quota
// needs room for both.
func notRecreated(err error) error {
	if apierrors.IsForbidden(err) {
		if quota := quotaIn(err.Error()); quota != nil {
			return fmt.Errorf("another number of members needs a second StatefulSet for a moment, and %w: raise it until the resize has ended",
				quota)
		}
	}
	return fmt.Errorf("another number of members needs a new StatefulSet beside the pods, which the API server does not accept: %w", err)
}
