// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// Objects that others name are followed by their names, so that a role may name them, each with a watch. MostNamed is how many may be, and
// NamedMemory the most that their watches take, in bytes, without the objects.
const (
	MostNamed   = 1000
	NamedMemory = MostNamed * bytesOfWatch

	bytesOfWatch = 40 << 10
)

// ErrTooMany says that a resource has more than may be kept, by itself or beside others. Nothing of it is known then.
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

// The memory of a process for all that it follows, in bytes: for the kinds of search itself, which administrators write, and for all
// others, such as the objects that policies read.
const (
	OwnMemory   = 64 << 20
	OtherMemory = 32 << 20
)

// Memory is for all that a process follows. If it is used up, the party that takes most gives way with its largest: no party keeps the
// objects of others from being known.
type Memory struct{ own, others pool }

// NewMemory returns memory of some bytes.
func NewMemory(own, others int) *Memory {
	return &Memory{own: pool{limit: own, of: map[*follower]int{}}, others: pool{limit: others, of: map[*follower]int{}}}
}

// StandardMemory returns the memory of a process.
func StandardMemory() *Memory { return NewMemory(OwnMemory, OtherMemory) }

// of returns the part of the memory for a target.
func (m *Memory) of(t target) *pool {
	if strings.HasSuffix(t.Group, ".clusterpedia.io") || t.Group == apiextensions.GroupName {
		return &m.own
	}
	return &m.others
}

// party is whose objects a target has: those of a namespace, or of a resource.
func (t target) party() string {
	if t.namespace != "" {
		return t.namespace
	}
	return "/" + t.GroupResource().String()
}

// pool is memory that some followers share.
type pool struct {
	limit int

	mu   sync.Mutex
	used int
	of   map[*follower]int
}

// set counts what a follower keeps, and what it has read of a list, and returns which one has to give way, if there is one, and why. A list
// gives way to what is known, unless a party has more than twice as much: of two that are too large together, the first one stays.
func (p *pool) set(f *follower, kept, read int) (gone *follower, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.put(f, kept+read); p.used <= p.limit {
		return nil, nil
	}
	parties := map[string]int{}
	for other, has := range p.of {
		parties[other.target.party()] += has
	}
	for other, has := range p.of {
		if gone == nil || cmp.Or(cmp.Compare(parties[other.target.party()], parties[gone.target.party()]), cmp.Compare(has, p.of[gone])) > 0 {
			gone = other
		}
	}
	if read > 0 && parties[gone.target.party()] <= 2*parties[f.target.party()] {
		gone = f
		p.put(gone, kept)
	} else {
		p.put(gone, 0)
	}
	return gone, fmt.Errorf("%w: all that it follows takes more than %d MiB, and this has most", ErrTooMany, p.limit>>20)
}

func (p *pool) forget(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(f, 0)
}

func (p *pool) put(f *follower, bytes int) {
	p.used += bytes - p.of[f]
	if p.of[f] = bytes; bytes == 0 {
		delete(p.of, f)
	}
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
	// reads counts how many bytes of a list were read, and returns an error if they are too many.
	reads func(bytes int) error
}

// IsWatchListSemanticsUnSupported keeps the informer from a watch that begins with all objects.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.Lister.
func (s *source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWithContext.
func (s *source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := s.list(ctx, options)
	if err != nil {
		s.reads(0) //nolint:errcheck // the pages are gone, and what is less is not too much
		return nil, err
	}
	return list, nil
}

func (s *source) list(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
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
		if err := s.reads(bytes); err != nil {
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
