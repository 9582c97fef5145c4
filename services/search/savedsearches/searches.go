// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package savedsearches

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/apis/saved/v1alpha1"
	"github.com/tripod-k8s/tripod/services/search/hub"
)

const (
	// Most is how many searches are counted: the oldest ones.
	Most = 100
	// mostKnown and memory bound what is known of all.
	mostKnown, memory = 1000, 16 << 20

	// standardInterval is that of a search that says none, and leastInterval the shortest one.
	standardInterval, leastInterval = time.Minute, 30 * time.Second
	// attemptTime is how long a replica may take to count, with all waits. Then another one tries.
	attemptTime = time.Minute
	// countTime bounds one count. It is less than attemptTime, so that two replicas do not count at once.
	countTime = 45 * time.Second
	// scanInterval is the pause between two looks at all searches.
	scanInterval = 5 * time.Second
)

var resource = v1alpha1.GroupVersion.WithResource(v1alpha1.Resource)

// Counter counts the objects that a user may list and that parameters of the collection "any" find. The error is [ErrForbidden] if the user
// may list nothing at all, and a Status with the reason BadRequest if the parameters are wrong.
type Counter func(ctx context.Context, name string, groups []string, parameters url.Values) (int64, error)

// ErrForbidden says that a user may list nothing.
var ErrForbidden = errors.New("the user may list nothing")

// Searches counts the matches of all SavedSearches of a cluster.
type Searches struct {
	client  dynamic.Interface
	count   Counter
	objects *hub.Objects
	changed chan struct{}
	now     func() time.Time
	// logged is whether the log says that there are too many. One line is enough until they can be read.
	logged bool

	mu    sync.Mutex
	known []*v1alpha1.SavedSearch
	// failure is why the searches cannot be read, or nil.
	failure error
}

// New returns the searches of a cluster, in the name of whose service the client writes.
func New(client dynamic.Interface, count Counter) *Searches {
	s := &Searches{client: client, count: count, changed: make(chan struct{}, 1), now: time.Now}
	s.objects = hub.New(client, hub.NewMemory(memory, memory), func() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	})
	s.objects.Bounds = hub.Bounds{Objects: mostKnown, Bytes: memory}
	s.objects.Trim = map[schema.GroupVersionResource]func(*unstructured.Unstructured){resource: func(object *unstructured.Unstructured) {
		object.SetAnnotations(nil) // kubectl apply keeps the parameters there once more
		object.SetLabels(nil)
	}}
	return s
}

// Run counts until the context ends. A replica counts one search at a time, and rests as long as that took, so that it takes at most half
// of one connection of the database.
func (s *Searches) Run(ctx context.Context) {
	defer s.objects.Stop()
	for ctx.Err() == nil {
		s.countDue(ctx)
		select {
		case <-ctx.Done():
		case <-s.changed:
			pause(ctx, time.Second) // an object that changes all the time is looked at once a second
		case <-time.After(scanInterval):
		}
	}
	s.know(nil, nil)
}

// countDue counts the searches whose interval is over.
func (s *Searches) countDue(ctx context.Context) {
	all, err := s.list()
	if err != nil {
		s.fail(err)
		return
	}
	for i, search := range all {
		if ctx.Err() != nil {
			return
		}
		if !s.isDue(search) {
			continue
		}
		began := s.now()
		if s.attempt(ctx, search, i >= Most) {
			pause(ctx, s.now().Sub(began))
			if _, err := s.list(); err != nil { // the loop may take long, and metrics are those of now
				s.fail(err)
				return
			}
		}
	}
}

// list returns all searches, the oldest first, and has the metrics show those that are counted.
func (s *Searches) list() (all []*v1alpha1.SavedSearch, err error) {
	list, err := s.objects.List(resource)
	if err != nil {
		return nil, err
	}
	s.logged = false
	for _, object := range list {
		search := &v1alpha1.SavedSearch{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, search); err != nil {
			klog.ErrorS(err, "A SavedSearch cannot be read", "name", object.GetName())
			continue
		}
		if search.DeletionTimestamp == nil {
			all = append(all, search)
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.SavedSearch) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	s.know(all[:min(len(all), Most)], nil)
	return all, nil
}

// fail has the metrics say that the searches cannot be read. A kind that does not exist is no failure: there are no searches.
func (s *Searches) fail(err error) {
	if errors.Is(err, hub.ErrTooMany) && !s.logged {
		klog.ErrorS(err, "SavedSearches cannot be read, so they are not counted")
		s.logged = true
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	s.know(nil, err)
}

func (s *Searches) know(all []*v1alpha1.SavedSearch, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.failure = all, failure
}

// isDue reports whether a search is to be counted now: it is new or has changed, or its interval is over, and no replica counts it.
func (s *Searches) isDue(search *v1alpha1.SavedSearch) bool {
	status, now := &search.Status, s.now()
	if by := status.Counting; by != nil && by.Generation == search.Generation {
		if since := now.Sub(by.Since.Time); since.Abs() < attemptTime {
			return false
		}
	}
	if status.ObservedGeneration != search.Generation || status.LastEvaluation == nil {
		return true
	}
	return now.Sub(status.LastEvaluation.Time).Abs() >= intervalOf(search) // a time far ahead is that of a wrong clock
}

func intervalOf(search *v1alpha1.SavedSearch) time.Duration {
	if search.Spec.IntervalSeconds == 0 {
		return standardInterval
	}
	return max(time.Duration(search.Spec.IntervalSeconds)*time.Second, leastInterval)
}

func pause(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// attempt counts a search, unless another replica does. It reports whether it counted.
func (s *Searches) attempt(ctx context.Context, search *v1alpha1.SavedSearch, tooMany bool) bool {
	counting := v1alpha1.Counting{Since: metav1.NewMicroTime(s.now()), Generation: search.Generation}
	version, ours := s.write(ctx, search.Name, search.ResourceVersion, map[string]any{"counting": counting})
	if !ours {
		return false
	}
	matches, err := int64(0), errTooMany
	if !tooMany {
		limited, cancel := context.WithTimeout(ctx, countTime)
		defer cancel()
		matches, err = s.count(limited, search.User(), []string{v1alpha1.AllUsers}, search.Values())
	}
	if ctx.Err() != nil { // this replica stops, and another one counts later
		return true
	}
	status, err := patchOf(judge(search, matches, err, metav1.NewTime(s.now())))
	if err != nil {
		klog.ErrorS(err, "The status of a SavedSearch cannot be encoded", "name", search.Name)
		return true
	}
	s.write(ctx, search.Name, version, status)
	return true
}

// patchOf returns a patch that makes a status this one.
func patchOf(status *v1alpha1.SavedSearchStatus) (map[string]any, error) {
	patch, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"counting", "exceededSince", "matches"} {
		if _, has := patch[field]; !has {
			patch[field] = nil
		}
	}
	return patch, nil
}

// write changes the status of a search that has not changed since a version. It returns the new version.
func (s *Searches) write(ctx context.Context, name, version string, status any) (newVersion string, written bool) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "status": status})
	if err != nil {
		klog.ErrorS(err, "The status of a SavedSearch cannot be encoded", "name", name)
		return "", false
	}
	now, err := s.client.Resource(resource).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		return now.GetResourceVersion(), true
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil:
		klog.ErrorS(err, "Cannot write the status of a SavedSearch", "name", name)
	}
	return "", false
}
