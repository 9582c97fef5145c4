// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tripod-k8s/tripod/services/search/store/database"
)

// ObjectSet has the objects of a resource in a cluster that a reader may read. It does not change.
type ObjectSet struct {
	all bool
	// namespaces are allowed as a whole, names in any namespace or without one, and objects by namespace and name. All are sorted.
	namespaces, names []string
	objects           [][2]string
}

// Size is how many values a statement binds for the set.
func (p *ObjectSet) Size() int { return len(p.namespaces) + len(p.names) + 2*len(p.objects) }

// AllObjects is the set of all objects.
var AllObjects = &ObjectSet{all: true}

// NewObjectSet returns a set that has all objects of some namespaces, the objects with some names in any namespace, and others by namespace
// and name. It is nil if it has nothing. It takes the slices, and sorts them.
func NewObjectSet(namespaces, names []string, objects [][2]string) *ObjectSet {
	slices.Sort(namespaces)
	slices.Sort(names)
	slices.SortFunc(objects, comparePairs)
	p := &ObjectSet{namespaces: slices.Compact(namespaces), names: slices.Compact(names)}
	p.objects = slices.DeleteFunc(slices.Compact(objects), func(object [2]string) bool {
		_, found := slices.BinarySearch(p.namespaces, object[0])
		if !found {
			_, found = slices.BinarySearch(p.names, object[1])
		}
		return found
	})
	if len(p.namespaces)+len(p.names)+len(p.objects) == 0 {
		return nil
	}
	return p
}

func comparePairs(a, b [2]string) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

// Has reports whether an object is in the set. The namespace of an object without one is empty.
func (p *ObjectSet) Has(namespace, name string) bool {
	if p == nil || p.all {
		return p != nil
	}
	_, found := slices.BinarySearch(p.namespaces, namespace)
	if !found {
		_, found = slices.BinarySearch(p.names, name)
	}
	if !found {
		_, found = slices.BinarySearchFunc(p.objects, [2]string{namespace, name}, comparePairs)
	}
	return found
}

// MayHaveIn reports whether the set may have objects in a namespace.
func (p *ObjectSet) MayHaveIn(namespace string) bool {
	if p == nil || p.all || len(p.names) > 0 {
		return p != nil
	}
	_, found := slices.BinarySearch(p.namespaces, namespace)
	return found || slices.ContainsFunc(p.objects, func(object [2]string) bool { return object[0] == namespace })
}

// Equal reports whether two sets have the same objects.
func (p *ObjectSet) Equal(other *ObjectSet) bool {
	return p == other || p != nil && other != nil && p.all == other.all &&
		slices.Equal(p.namespaces, other.namespaces) && slices.Equal(p.names, other.names) && slices.Equal(p.objects, other.objects)
}

// InNamespaces returns what a set has in some namespaces, and without a namespace: owners may have none. No namespaces stand for all.
func (p *ObjectSet) InNamespaces(namespaces []string) *ObjectSet {
	if p == nil || p.all || len(namespaces) == 0 {
		return p
	}
	has := sets.New(namespaces...).Insert("")
	less := &ObjectSet{names: p.names}
	for _, namespace := range p.namespaces {
		if has.Has(namespace) {
			less.namespaces = append(less.namespaces, namespace)
		}
	}
	for _, object := range p.objects {
		if has.Has(object[0]) {
			less.objects = append(less.objects, object)
		}
	}
	if len(less.namespaces)+len(less.names)+len(less.objects) == 0 {
		return nil
	}
	return less
}

// WithoutObjectsIn returns a set that does not name objects of some namespaces one by one.
func (p *ObjectSet) WithoutObjectsIn(namespaces map[string]bool) *ObjectSet {
	less := &ObjectSet{namespaces: p.namespaces, names: p.names}
	for _, object := range p.objects {
		if !namespaces[object[0]] {
			less.objects = append(less.objects, object)
		}
	}
	if len(less.namespaces)+len(less.names)+len(less.objects) == 0 {
		return nil
	}
	return less
}

// Key is the same for equal sets only. Members choose the names, so it is a cryptographic hash.
func (p *ObjectSet) Key() string {
	if p.all {
		return ""
	}
	sum := sha256.New()
	text := make([]byte, 0, 256)
	add := func(value string) {
		text = append(append(binary.AppendUvarint(text[:0], uint64(len(value))), value...), 0)
		sum.Write(text) // it returns no error
	}
	for _, values := range [][]string{p.namespaces, p.names} {
		add(strconv.Itoa(len(values)))
		for _, value := range values {
			add(value)
		}
	}
	for _, object := range p.objects {
		add(object[0])
		add(object[1])
	}
	return string(sum.Sum(nil))
}

// Condition appends that a row of objects is in the set.
func (p *ObjectSet) Condition(s *database.Statement, table string) {
	if p.all {
		return
	}
	before := " AND ("
	if len(p.namespaces) > 0 {
		database.OneOf(s.Add(before+table+".namespace"), p.namespaces)
		before = " OR "
	}
	if len(p.names) > 0 {
		database.OneOf(s.Add(before+table+".name"), p.names)
		before = " OR "
	}
	if len(p.objects) > 0 {
		database.Pairs(s.Add(before+"("+table+".namespace, "+table+".name) IN "), p.objects)
	}
	s.Add(")")
}

// IsAll reports whether the set has all objects.
func (p *ObjectSet) IsAll() bool { return p.all }

// Namespaces are allowed as a whole.
func (p *ObjectSet) Namespaces() []string { return p.namespaces }

// Names are those of objects that are allowed in any namespace, or without one.
func (p *ObjectSet) Names() []string { return p.names }

// Objects are allowed by namespace and name.
func (p *ObjectSet) Objects() [][2]string { return p.objects }

// Except returns what is left without some namespaces and objects.
func (p *ObjectSet) Except(namespace func(string) bool, object func([2]string) bool) *ObjectSet {
	less := &ObjectSet{names: p.names, namespaces: slices.DeleteFunc(slices.Clone(p.namespaces), namespace)}
	less.objects = slices.DeleteFunc(slices.Clone(p.objects), object)
	if len(less.namespaces)+len(less.names)+len(less.objects) == 0 {
		return nil
	}
	return less
}
