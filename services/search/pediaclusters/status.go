// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// maxMessage bounds the text of an error in a condition, and maxDetail that in the state of a resource: a cluster may have a thousand.
const maxMessage, maxDetail = 1024, 512

// statusOf returns the status of a cluster. old is the one before. If something is wrong with its spec, that is invalid, and nothing is
// copied.
func statusOf(
	old v1alpha2.ClusterStatus, generation int64, apiServer string, invalid error, health member.Health, streams []member.Status,
) v1alpha2.ClusterStatus {
	status := v1alpha2.ClusterStatus{
		APIServer: apiServer, Version: old.Version, ShardingName: old.ShardingName, Party: old.Party,
		Conditions: slices.Clone(old.Conditions),
	}
	set := func(kind string, ok bool, reason, message string) {
		is := metav1.ConditionFalse
		if ok {
			is = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: is, Reason: reason, Message: message[:min(len(message), maxMessage)], ObservedGeneration: generation,
		})
	}
	if invalid != nil {
		set(v1alpha2.Validated, false, "InvalidConfig", invalid.Error())
		set(v1alpha2.SynchroRunning, false, "Shutdown", "")
		set(v1alpha2.ClusterHealthy, false, "MonitorStop", "")
		set(v1alpha2.Ready, false, "NotReady", invalid.Error())
		set(v1alpha2.Fresh, false, "MonitorStop", "")
		meta.RemoveStatusCondition(&status.Conditions, v1alpha2.WithinLimits)
		return status
	}
	status.Version, status.SyncResources = cmp.Or(health.Version, old.Version), groupsOf(streams)
	set(v1alpha2.Validated, true, "Validated", "")
	trouble := strings.Join(slices.DeleteFunc([]string{troubleOf(streams), leftOut(health)}, func(s string) bool { return s == "" }), "; ")
	switch {
	case health.Version == "" && health.Failure == nil && health.Answered:
		set(v1alpha2.ClusterHealthy, false, "NotReachable", "the cluster answers, and names no version")
		set(v1alpha2.SynchroRunning, true, "Running", trouble)
	case health.Version == "" && health.Failure == nil:
		set(v1alpha2.ClusterHealthy, false, "NotReachable", "the cluster has not answered yet")
		set(v1alpha2.SynchroRunning, false, "Pending", "")
	case health.Failure != nil:
		set(v1alpha2.ClusterHealthy, false, "NotReachable", health.Failure.Error())
		set(v1alpha2.SynchroRunning, health.Version != "", "Running", trouble)
	default:
		set(v1alpha2.ClusterHealthy, true, "Healthy", "")
		set(v1alpha2.SynchroRunning, true, "Running", trouble)
	}
	if limits := limitsOf(health, streams); limits != "" {
		set(v1alpha2.WithinLimits, false, member.LimitReached, limits)
	} else {
		set(v1alpha2.WithinLimits, true, "WithinLimits", "")
	}
	healthy := meta.IsStatusConditionTrue(status.Conditions, v1alpha2.ClusterHealthy)
	reason := "NotReady"
	if healthy {
		reason = "Ready"
	}
	set(v1alpha2.Ready, healthy, reason, "")
	return status
}

// setFresh sets the condition that says whether the copy of a cluster is as new as searches expect it. Its message stays while the
// resources do.
func setFresh(status *v1alpha2.ClusterStatus, generation int64, state streams.State, known bool) {
	fresh := metav1.Condition{Type: v1alpha2.Fresh, Status: metav1.ConditionFalse, ObservedGeneration: generation}
	switch {
	case !known:
		fresh.Reason, fresh.Message = "Incomplete", "nothing is copied yet"
	case state.Incomplete > 0:
		fresh.Reason, fresh.Message = "Incomplete", fmt.Sprintf("the first list of %d of %d resources is not complete", state.Incomplete,
			state.Resources)
	case len(state.Stale) > 0:
		var names []string
		for _, resource := range state.Stale {
			names = append(names, resource.String())
		}
		fresh.Reason, fresh.Message = v1alpha2.Stale, fmt.Sprintf("not synced for %s: %s", streams.StaleAfter, strings.Join(names, ", "))
	default:
		fresh.Status, fresh.Reason = metav1.ConditionTrue, "Fresh"
	}
	fresh.Message = fresh.Message[:min(len(fresh.Message), maxMessage)]
	meta.SetStatusCondition(&status.Conditions, fresh)
}

// troubleOf names the resources that are not copied, and those of which objects are missing.
func troubleOf(streams []member.Status) string {
	var failing, missing []string
	for _, s := range streams {
		switch name := s.Kind.GroupVersionResource.GroupResource().String(); {
		case s.Phase == member.Failed:
			failing = append(failing, name)
		case len(s.Refused) > 0:
			missing = append(missing, name)
		}
	}
	var parts []string
	if len(failing) > 0 {
		parts = append(parts, "not copied now: "+strings.Join(failing, ", "))
	}
	if len(missing) > 0 {
		parts = append(parts, "without objects that are refused: "+strings.Join(missing, ", "))
	}
	return strings.Join(parts, "; ")
}

// leftOut names the resources that are not copied because only some namespaces are.
func leftOut(health member.Health) string {
	if len(health.LeftOut) == 0 {
		return ""
	}
	return "not copied, because they are in no namespace and spec.namespaces is set: " + strings.Join(health.LeftOut, ", ")
}

// limitsOf says which limits a cluster has reached, with which resources.
func limitsOf(health member.Health, streams []member.Status) string {
	var all []string
	if health.Limit != "" {
		all = append(all, health.Limit)
	}
	for _, s := range streams {
		if s.Reason == member.LimitReached {
			all = append(all, s.Kind.GroupVersionResource.GroupResource().String()+": "+s.Message)
		}
	}
	return strings.Join(all, "; ")
}

func groupsOf(streams []member.Status) (groups []v1alpha2.GroupStatus) {
	for _, s := range streams { // they are in the order of groups and resources
		if last := len(groups) - 1; last < 0 || groups[last].Group != s.Kind.Group {
			groups = append(groups, v1alpha2.GroupStatus{Group: s.Kind.Group})
		}
		group := &groups[len(groups)-1]
		if last := len(group.Resources) - 1; last < 0 || group.Resources[last].Name != s.Kind.Resource {
			group.Resources = append(group.Resources, v1alpha2.ResourceStatus{
				Name: s.Kind.Resource, Kind: s.Kind.Name, Namespaced: s.Kind.Namespaced,
			})
		}
		resource := &group.Resources[len(group.Resources)-1]
		resource.SyncConditions = append(resource.SyncConditions, conditionOf(s))
	}
	return groups
}

func conditionOf(s member.Status) v1alpha2.SyncCondition {
	condition := v1alpha2.SyncCondition{
		Version: s.Kind.Version, SyncVersion: s.Kind.Version, StorageVersion: s.Kind.Version, Status: string(s.Phase), Reason: s.Reason,
		Message: s.Message[:min(len(s.Message), maxDetail)], InitialListPhase: s.Listing,
		LastTransitionTime: metav1.NewTime(s.Since.Truncate(time.Second)),
	}
	if len(s.Refused) > 0 && condition.Reason == "" {
		condition.Reason = "ObjectsRefused"
		var all []string
		for _, name := range slices.Sorted(maps.Keys(s.Refused)) {
			all = append(all, name+": "+s.Refused[name])
		}
		condition.Message = strings.Join(all, "; ")
		condition.Message = condition.Message[:min(len(condition.Message), maxDetail)]
	}
	return condition
}
