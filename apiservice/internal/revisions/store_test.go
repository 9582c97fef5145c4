// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	runtimego "runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

type thing = metav1.PartialObjectMetadata

func newStore(t *testing.T, o Options) *Store {
	t.Helper()
	gv, scheme := schema.GroupVersion{Group: "example.com", Version: "v1"}, runtime.NewScheme()
	scheme.AddKnownTypeWithName(gv.WithKind("Thing"), &thing{})
	scheme.AddKnownTypeWithName(gv.WithKind("ThingList"), &metav1.PartialObjectMetadataList{})
	s, err := New(storages.Resource{
		GroupResource: schema.GroupResource{Group: gv.Group, Resource: "things"}, Prefix: "/things/",
		Codec: serializer.NewCodecFactory(scheme).LegacyCodec(gv),
		New:   func() runtime.Object { return &thing{} }, NewList: func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
	}, o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func create(t *testing.T, s *Store, name, content string) (*thing, error) {
	t.Helper()
	out := &thing{}
	object := &thing{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"content": content}}}
	return out, s.Create(t.Context(), "/things/"+name, object, out, 0)
}

func watchFrom(t *testing.T, s *Store, version string) watch.Interface {
	t.Helper()
	w, err := s.Watch(t.Context(), "/things/", storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything})
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// lastError reads a watch to its end, and returns how many events it had before the error.
func lastError(t *testing.T, w watch.Interface) (int, error) {
	t.Helper()
	events := 0
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return events, apierrors.FromObject(event.Object)
		}
		events++
	}
	return events, nil
}

func TestHistoryIsBounded(t *testing.T) {
	for name, o := range map[string]Options{"by changes": {HistoryChanges: 10}, "by bytes": {HistoryBytes: 5000}} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, o)
			first, err := create(t, s, "first", "")
			require.NoError(t, err)
			slow := watchFrom(t, s, first.ResourceVersion)
			for i := range 500 {
				_, err := create(t, s, strconv.Itoa(i), "")
				require.NoError(t, err)
			}
			assert.Less(t, len(s.history), 50)
			events, err := lastError(t, watchFrom(t, s, first.ResourceVersion))
			assert.True(t, apierrors.IsResourceExpired(err), "a watch that begins too early: %v", err)
			assert.Zero(t, events)
			events, err = lastError(t, slow)
			assert.True(t, apierrors.IsResourceExpired(err), "a watch that is read too slowly: %v", err)
			assert.Less(t, events, 500)
			exact := storage.ListOptions{
				ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
				Recursive: true, Predicate: storage.Everything,
			}
			err = s.GetList(t.Context(), "/things/", exact, &metav1.PartialObjectMetadataList{})
			assert.True(t, apierrors.IsResourceExpired(err), "a list of a forgotten revision: %v", err)
		})
	}
}

func TestAFullStorageTakesNothingMore(t *testing.T) {
	s := newStore(t, Options{MaxBytes: 10_000})
	_, err := create(t, s, "a", strings.Repeat("x", 6000))
	require.NoError(t, err)
	_, err = create(t, s, "b", strings.Repeat("x", 6000))
	assert.ErrorContains(t, err, "the storage of things.example.com is full")
	assert.Equal(t, int32(507), err.(apierrors.APIStatus).Status().Code)
	require.NoError(t, s.Delete(t.Context(), "/things/a", &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
	_, err = create(t, s, "b", strings.Repeat("x", 6000))
	assert.NoError(t, err)
}

func TestCloseEndsWatchesAndRequests(t *testing.T) {
	s := newStore(t, Options{})
	w := watchFrom(t, s, "")
	s.Close()
	_, err := lastError(t, w)
	assert.NoError(t, err, "the watch ends without an error, so that the client resumes it")
	_, err = create(t, s, "a", "")
	assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	assert.Error(t, s.ReadinessCheck())
}

// Clients keep resourceVersions of a process that has ended.
func TestAnotherProcessContinuesNoRevision(t *testing.T) {
	before, err := create(t, newStore(t, Options{}), "a", "")
	require.NoError(t, err)
	s := newStore(t, Options{})
	_, err = lastError(t, watchFrom(t, s, before.ResourceVersion))
	assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
	_, err = lastError(t, watchFrom(t, s, "9000000000000000000"))
	assert.True(t, apierrors.IsResourceExpired(err), "of a clock that was ahead: %v", err)
}

// Both count from the same moment, so each has revisions between those of the other.
func TestReplicasThatStartTogetherContinueNoRevisionOfEachOther(t *testing.T) {
	const changes = 200
	one, other := newStore(t, Options{}), newStore(t, Options{})
	of := func(s *Store, i int) string {
		created, err := create(t, s, strconv.Itoa(i), "")
		require.NoError(t, err)
		return created.ResourceVersion
	}
	var theirs []string
	own := map[string]bool{}
	for i := range changes {
		own[of(one, i)] = true
		theirs = append(theirs, of(other, i))
	}
	for i := changes; of(one, i) <= theirs[changes-1]; i++ {
		continue // so that none of theirs is yet to come
	}
	shared := 0
	for _, version := range theirs {
		if own[version] {
			shared++ // by chance
			continue
		}
		_, err := lastError(t, watchFrom(t, one, version))
		require.True(t, apierrors.IsResourceExpired(err), "a watch from %s: %v", version, err)
		exact := storage.ListOptions{
			ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Recursive: true, Predicate: storage.Everything,
		}
		err = one.GetList(t.Context(), "/things/", exact, &metav1.PartialObjectMetadataList{})
		require.True(t, apierrors.IsResourceExpired(err), "a list of %s: %v", version, err)
	}
	assert.Less(t, shared, changes/10)
}

// The client of a watch may read nothing for hours.
func TestAWatchThatIsNotReadKeepsNothingThatIsForgotten(t *testing.T) {
	for name, version := range map[string]string{"with initial objects": "0", "of changes": "now"} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Options{HistoryChanges: 3})
			start, err := create(t, s, "a", "")
			require.NoError(t, err)
			if version == "now" {
				version = start.ResourceVersion
			}
			w := watchFrom(t, s, version)
			first, err := create(t, s, "b", "first")
			require.NoError(t, err)
			<-w.ResultChan() // a or b, so the watch has begun. It now waits with the next one
			found, err := s.look("/things/b")
			require.NoError(t, err)
			old := weak.Make(found)
			for i := range 10 {
				_, err := create(t, s, strconv.Itoa(i), "")
				require.NoError(t, err)
			}
			require.NoError(t, s.Delete(t.Context(), "/things/b", &thing{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
			for i := range 10 {
				_, err := create(t, s, "later"+strconv.Itoa(i), "")
				require.NoError(t, err)
			}
			require.Eventually(t, func() bool {
				runtimego.GC()
				return old.Value() == nil
			}, time.Minute, time.Millisecond, "the object of revision %s is still there", first.ResourceVersion)
			_, err = lastError(t, w)
			assert.True(t, apierrors.IsResourceExpired(err), "%v", err)
		})
	}
}

func TestNoObjectEndsByTime(t *testing.T) {
	s := newStore(t, Options{})
	assert.Error(t, s.Create(t.Context(), "/things/a", &thing{}, &thing{}, 5))
}

func things(content string, names ...string) map[string]runtime.Object {
	all := map[string]runtime.Object{}
	for _, name := range names {
		all["/things/"+name] = &thing{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"content": content}}}
	}
	return all
}

// Readers see all of a result or the one before, and watches get all of it, however little is remembered.
func TestReplaceIsWholeOrNot(t *testing.T) {
	s := newStore(t, Options{MaxBytes: 10_000, HistoryChanges: 2})
	require.NoError(t, s.Replace(things("", "a", "b")))
	list := func() *metav1.PartialObjectMetadataList {
		found := &metav1.PartialObjectMetadataList{}
		require.NoError(t, s.GetList(t.Context(), "/things/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, found))
		return found
	}
	before := list()
	assert.ErrorContains(t, s.Replace(things(strings.Repeat("x", 4000), "b", "c", "d")), "is full")
	assert.Equal(t, before, list())

	w := watchFrom(t, s, before.ResourceVersion)
	require.NoError(t, s.Replace(things("new", "b", "c", "d", "e")))
	var events []string
	for range 5 {
		event := <-w.ResultChan()
		events = append(events, string(event.Type)+" "+event.Object.(*thing).Name)
	}
	assert.Equal(t, []string{"DELETED a", "MODIFIED b", "ADDED c", "ADDED d", "ADDED e"}, events)
	assert.Len(t, list().Items, 4)
	assert.Error(t, s.Replace(map[string]runtime.Object{"/others/a": &thing{}}))
	assert.Len(t, list().Items, 4)
}

// A controller must be able to remove finalizers from objects of a full storage, whose users can only delete.
func TestAFullStorageMarksObjectsAsDeleted(t *testing.T) {
	s := newStore(t, Options{MaxBytes: 400})
	_, err := create(t, s, "a", strings.Repeat("x", 250))
	require.NoError(t, err)
	update := func(change func(*thing)) error {
		return s.GuaranteedUpdate(t.Context(), "/things/a", &thing{}, false, nil, func(object runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			now := object.DeepCopyObject().(*thing)
			change(now)
			return now, nil, nil
		}, nil)
	}
	assert.ErrorContains(t, update(func(now *thing) { now.Annotations["more"] = strings.Repeat("x", 300) }), "is full")
	require.NoError(t, update(func(now *thing) {
		now.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		now.Annotations["pad"] = strings.Repeat("x", 100)
	}))
}
