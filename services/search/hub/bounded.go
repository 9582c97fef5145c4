// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// ErrTooMany says that a resource has more than may be kept. Nothing of it is known then.
var ErrTooMany = errors.New("more than search follows")

// Bounds are those of each target.
type Bounds struct{ Objects, Bytes int }

// Standard is enough for 5000 clusters with 6 KiB each, without what Trim removes.
var Standard = Bounds{Objects: 10_000, Bytes: 32 << 20}

func (b Bounds) check(objects, bytes int) error {
	if objects <= b.Objects && bytes <= b.Bytes {
		return nil
	}
	return fmt.Errorf("%w: it has more than %d objects or %d MiB", ErrTooMany, b.Objects, b.Bytes>>20)
}

const (
	// firstPage and lastPage are how many objects a page has. An object may have 1.5 MiB, so pages grow while they are small.
	firstPage, lastPage = 10, 500
	smallPage           = 1 << 20
)

// source lists a target in pages, and gives up when it is too large. An informer would take everything at once.
type source struct {
	resource dynamic.ResourceInterface
	choose   func(*metav1.ListOptions)
	trim     func(*unstructured.Unstructured)
	bounds   Bounds
}

// IsWatchListSemanticsUnSupported keeps the informer from a watch that begins with all objects.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.Lister.
func (s *source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWithContext.
func (s *source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.choose(&options)
	// kube-apiserver has no pages of a list with the revision 0.
	options.ResourceVersion, options.ResourceVersionMatch, options.Limit, options.Continue = "", "", firstPage, ""
	all, bytes := &unstructured.UnstructuredList{}, 0
	for {
		page, err := s.resource.List(ctx, options)
		if err != nil {
			return nil, err
		}
		before := bytes
		for i := range page.Items {
			s.trim(&page.Items[i])
			bytes += sizeOf(page.Items[i].Object)
		}
		all.Object, all.Items = page.Object, append(all.Items, page.Items...)
		if err := s.bounds.check(len(all.Items), bytes); err != nil {
			return nil, err
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
		if bytes-before < smallPage {
			options.Limit = min(2*options.Limit, lastPage)
		}
	}
}

// Watch implements cache.Watcher.
func (s *source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// WatchWithContext implements cache.WatcherWithContext.
func (s *source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.choose(&options)
	return s.resource.Watch(ctx, options)
}

// sizeOf returns about how much memory a value takes.
func sizeOf(value any) int {
	const field = 16
	size := field
	switch v := value.(type) {
	case string:
		size += len(v)
	case []any:
		for _, one := range v {
			size += sizeOf(one)
		}
	case map[string]any:
		for name, one := range v {
			size += field + len(name) + sizeOf(one)
		}
	}
	return size
}
