// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagetest tests whether a storage of objects keeps the rules that API servers and their clients rely on.
//
//	func TestRules(t *testing.T) {
//		storagetest.Run(t, storagetest.Options{
//			Open: func(t *testing.T, r storages.Resource) storage.Interface {
//				store, stop, err := shelf.Open(t.TempDir(), r)
//				require.NoError(t, err)
//				t.Cleanup(stop)
//				return store
//			},
//		})
//	}
//
// Each rule is a subtest with the rule as its name, so the name of a failed test says which rule the storage violates. Most of them are
// Kubernetes' own tests of etcd's storage (k8s.io/apiserver/pkg/storage/testing). etcd's storage keeps all rules.
package storagetest

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	kubetest "k8s.io/apiserver/pkg/storage/testing"

	"github.com/tripod-k8s/tripod/apiservice/storages"
)

// Options say how to make the storage under test.
type Options struct {
	// Open makes an empty storage for a resource. It ends with the test.
	Open func(*testing.T, storages.Resource) storage.Interface
	// Compact makes a storage forget what was before a revision, so that requests for that get 410. It also makes a revision of its own, as
	// etcd's compaction does. If it is nil, the rules about forgotten revisions are skipped.
	Compact func(context.Context, *testing.T, storage.Interface, int64)
}

// rule is what a storage must do.
type rule struct {
	name string
	test func(context.Context, *testing.T, storage.Interface)
}

// Run tests each rule with a storage of its own. It needs no cluster, and takes some seconds with a storage in memory.
func Run(t *testing.T, o Options) {
	for _, r := range slices.Concat(writes, reads, watches, order, gates) {
		t.Run(r.name, func(t *testing.T) { r.test(t.Context(), t, o.Open(t, resource())) })
	}
	for _, r := range o.forgotten() {
		t.Run(r.name, func(t *testing.T) {
			if o.Compact == nil {
				t.Skip("not tested: Options.Compact is nil, so nothing makes the storage forget a revision")
			}
			r.test(t.Context(), t, o.Open(t, resource()))
		})
	}
}

// prefix is that of Kubernetes' tests.
const prefix = "/pods/"

// resource are the pods of k8s.io/apiserver's example, in which Kubernetes' tests are written.
func resource() storages.Resource {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return storages.Resource{
		GroupResource: schema.GroupResource{Group: example.GroupName, Resource: "pods"},
		Prefix:        prefix,
		Codec:         serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion),
		New:           func() runtime.Object { return &example.Pod{} },
		NewList:       func() runtime.Object { return &example.PodList{} },
	}
}

var writes = []rule{
	{"create gives the object a resourceVersion", func(ctx context.Context, t *testing.T, s storage.Interface) {
		kubetest.RunTestCreate(ctx, t, s, func(context.Context, *testing.T, string) {})
	}},
	{"create refuses a key that exists", kubetest.RunTestCreateWithKeyExist},
	{"keys outside of the resource are refused", testKeys},
	{"delete returns the last state, with the resourceVersion of the deletion", testDeleteReturnsLastState},
	{"delete of a missing object is NotFound", kubetest.RunTestUnconditionalDelete},
	{"delete heeds preconditions", kubetest.RunTestConditionalDelete},
	{"delete with an old cached object heeds the stored one", kubetest.RunTestDeleteWithSuggestionAndConflict},
	{"delete with a cached object that is deleted is NotFound", kubetest.RunTestDeleteWithSuggestionOfDeletedObject},
	{"delete tries again if the object changes meanwhile", kubetest.RunTestDeleteWithConflict},
	{"delete validates the stored object", kubetest.RunTestValidateDeletionWithOnlySuggestionValid},
	{"delete heeds preconditions by the stored object", kubetest.RunTestPreconditionalDeleteWithOnlySuggestionPass},
	{"update heeds preconditions, and writes nothing if nothing changes", testUpdate},
	{"update tries again if the object changes meanwhile", kubetest.RunTestGuaranteedUpdateWithConflict},
	{"update with an old cached object heeds the stored one", kubetest.RunTestGuaranteedUpdateWithSuggestionAndConflict},
	{"concurrent updates lose nothing", testConcurrentUpdates},
	{"an object that is created again has a later resourceVersion", testCreatedAgain},
}

var reads = []rule{
	{"get heeds the resourceVersion", testGet},
	{"a list of one key has that object only", func(ctx context.Context, t *testing.T, s storage.Interface) {
		kubetest.RunTestGetListNonRecursive(ctx, t, increase(s), s)
	}},
	{"a list of a prefix has the objects below it", kubetest.RunTestGetListRecursivePrefix},
	{"a list at a resourceVersion is as it was then", testListAtVersion},
	{"limit and continue return each object once", func(ctx context.Context, t *testing.T, s storage.Interface) {
		kubetest.RunTestListContinuation(ctx, t, s, anyCalls)
	}},
	{"limit and continue work with selectors", func(ctx context.Context, t *testing.T, s storage.Interface) {
		kubetest.RunTestListContinuationWithFilter(ctx, t, s, anyCalls)
	}},
	{"limit and continue find rare objects", func(ctx context.Context, t *testing.T, s storage.Interface) {
		kubetest.RunTestListPaginationRareObject(ctx, t, s, anyCalls)
	}},
	{"all pages have the resourceVersion of the first", kubetest.RunTestListPaging},
	{"pages are of one revision while objects change", testPagesWhileObjectsChange},
	{"a list of a namespace has its objects only", kubetest.RunTestNamespaceScopedList},
}

var watches = []rule{
	{"a watch shows what its selector sees", kubetest.RunTestWatch},
	{"a watch of cluster-scoped objects", kubetest.RunTestClusterScopedWatch},
	{"a watch of a namespace has its objects only", kubetest.RunTestNamespaceScopedWatch},
	{"a deletion reaches watches", kubetest.RunTestDeleteTriggerWatch},
	{"a DELETED event has the resourceVersion of the deletion", kubetest.RunTestWatchDeleteEventObjectHaveLatestRV},
	{"a watch without a resourceVersion begins with the objects", func(ctx context.Context, t *testing.T, s storage.Interface) {
		kubetest.RunTestWatchFromZero(ctx, t, s, nil)
	}},
	{"a watch from a resourceVersion has what came later", kubetest.RunTestWatchFromNonZero},
	{"a watch ends with its context", kubetest.RunTestWatchContextCancel},
	{"a watch says when it has begun", kubetest.RunTestWatchInitializationSignal},
	{"initial events end with a bookmark", testInitialEvents},
	{"initial events and later ones are those of one object", kubetest.RunWatchListMatchSingle},
}

var order = []rule{
	{"watches have each change once, in the order of resourceVersions", testOrder},
}

// forgotten are the rules about revisions that a storage has forgotten.
func (o Options) forgotten() []rule {
	compact := func(s storage.Interface) kubetest.Compaction {
		return func(ctx context.Context, t *testing.T, version string) {
			o.Compact(ctx, t, s, int64(parse(t, version)))
		}
	}
	return []rule{
		{"lists heed resourceVersion, its match, limit and continue", func(ctx context.Context, t *testing.T, s storage.Interface) {
			kubetest.RunTestList(ctx, t, s, compact(s), false, nil)
		}},
		{"a page of a forgotten revision gets 410 and a way to go on", func(ctx context.Context, t *testing.T, s storage.Interface) {
			kubetest.RunTestListInconsistentContinuation(ctx, t, s, compact(s))
		}},
		{"a watch from a forgotten revision gets 410", func(ctx context.Context, t *testing.T, s storage.Interface) {
			testForgottenWatch(ctx, t, s, o.Compact)
		}},
	}
}

func anyCalls(*testing.T, uint64, uint64) {}
