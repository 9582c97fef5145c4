// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// readable is what clients of a ReadOnly resource use.
type readable interface {
	rest.Getter
	rest.Lister
}

// storageOf makes the storage of a ReadOnly resource, which ends with the test.
func storageOf(t *testing.T, r ReadOnly[*moment]) rest.Storage {
	t.Helper()
	s := serviceOf(r, true)
	types, err := newTypes(s)
	require.NoError(t, err)
	all, err := r.storages(&Environment{types: types}, s.Groups[0], nil)
	require.NoError(t, err)
	storage := all[r.Name]
	t.Cleanup(storage.Destroy)
	return storage
}

func at(namespace, name string, set map[string]string) *moment {
	return &moment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: set}}
}

func namesOf(t *testing.T, s rest.Lister, namespace string, options *metainternal.ListOptions) ([]string, error) {
	t.Helper()
	list, err := s.List(request.WithNamespace(t.Context(), namespace), options)
	if err != nil {
		return nil, err
	}
	names := []string{}
	require.NoError(t, meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(*moment).Name)
		return nil
	}))
	return names, nil
}

func TestAFunctionAnswersEachRequest(t *testing.T) {
	moments := []*moment{at("a", "one", map[string]string{"x": "1"}), at("a", "two", nil)}
	s := storageOf(t, ReadOnly[*moment]{Name: "moments", List: func(_ context.Context, namespace string) ([]*moment, error) {
		if namespace == "wrong" {
			return moments, nil
		}
		if namespace == "broken" {
			return nil, errors.New("no contact")
		}
		return moments, nil
	}})
	assert.NotImplements(t, (*rest.Watcher)(nil), s)
	assert.NotImplements(t, (*rest.Creater)(nil), s) //nolint:misspell // a name of Kubernetes
	assert.NotImplements(t, (*rest.GracefulDeleter)(nil), s)
	r := s.(readable)
	names, err := namesOf(t, r, "a", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"one", "two"}, names)
	names, err = namesOf(t, r, "a", &metainternal.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"x": "1"})})
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, names)
	found, err := r.Get(request.WithNamespace(t.Context(), "a"), "two", nil)
	require.NoError(t, err)
	assert.NotSame(t, moments[1], found, "clients cannot change what the author has")
	_, err = r.Get(request.WithNamespace(t.Context(), "a"), "three", nil)
	assert.True(t, apierrors.IsNotFound(err), "%v", err)

	_, err = namesOf(t, r, "broken", nil)
	assert.ErrorContains(t, err, "no contact")
	_, err = namesOf(t, r, "wrong", nil)
	assert.ErrorContains(t, err, `of namespace "a" for namespace "wrong"`, "a reader of a namespace sees no other")
}

func TestGetAnswersRequestsForOneObject(t *testing.T) {
	s := storageOf(t, ReadOnly[*moment]{
		Name: "moments",
		List: func(context.Context, string) ([]*moment, error) { return nil, errors.New("not asked") },
		Get:  func(_ context.Context, _, name string) (*moment, error) { return at("a", name, nil), nil },
	}).(readable)
	found, err := s.Get(request.WithNamespace(t.Context(), "a"), "one", nil)
	require.NoError(t, err)
	assert.Equal(t, "one", found.(*moment).Name)
	_, err = s.Get(request.WithNamespace(t.Context(), "b"), "one", nil)
	assert.ErrorContains(t, err, `of namespace "a" for namespace "b"`)
}

func TestNothingIsReadBeforeTheFirstPoll(t *testing.T) {
	answers := make(chan error)
	s := storageOf(t, ReadOnly[*moment]{
		Name: "moments", PollInterval: minPollInterval,
		List: func(ctx context.Context, _ string) ([]*moment, error) {
			select {
			case err := <-answers:
				return []*moment{at("a", "one", nil)}, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
	assert.Implements(t, (*rest.Watcher)(nil), s)
	r := s.(readable)
	_, err := namesOf(t, r, "a", nil)
	assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
	answers <- errors.New("no contact")
	answers <- nil
	require.Eventually(t, func() bool {
		names, err := namesOf(t, r, "", nil)
		return err == nil && len(names) == 1
	}, time.Minute, time.Millisecond)
}

func TestAReadOnlyResourceIsChecked(t *testing.T) {
	list := func(context.Context, string) ([]*moment, error) { return nil, nil }
	wants(t, parse(t, serviceOf(ReadOnly[*moment]{Name: "moments", List: list}, true)), "")
	wants(t, parse(t, serviceOf(ReadOnly[*moment]{Name: "moments"}, true)), "needs List")
	wants(t, parse(t, serviceOf(ReadOnly[*moment]{Name: "moments", List: list, PollInterval: 5}, true)), "PollInterval is 5ns")
}
