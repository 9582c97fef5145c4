// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Query is what a search asks for. Its parts must all hold.
type Query struct {
	Clusters, Namespaces, Names Choice
	// Fuzzy are texts that a name contains.
	Fuzzy []string
	// Words are somewhere in an object, all of them: in its name, kind, namespace, cluster, labels or images. A to Z are a to z.
	Words []string
	// Labels are about the labels of objects.
	Labels labels.Requirements
	Fields []Field
	// Owner is nil if owners do not count.
	Owner *Owner
	// Since and Before are limits of the creation time: Since <= created < Before. Zero is no limit.
	Since, Before time.Time

	// At asks for the state of a moment. It is nil for the latest one.
	At *Moment
	// DiffersFrom leaves out the objects that were the same at another moment. It is nil if that does not count.
	DiffersFrom *Moment
	// SameClusters leaves states of the past out of clusters that had the name of another one then.
	SameClusters bool

	// GroupBy asks for numbers of objects by these, rather than for objects.
	GroupBy []GroupBy

	Order []Order
	// Limit is 0 for no limit.
	Limit, Offset int64
	// After is where the page before this one ended. It is nil for a first page.
	After *Position
	// WithContinue asks for a token that continues the list, and WithRemaining for the number of objects after it.
	WithContinue, WithRemaining bool
	OnlyMetadata                bool
	// InjectEvents adds the events of each object to it.
	InjectEvents bool
	// MaxStaleness is how old the copies of clusters may be. Zero is no limit.
	MaxStaleness time.Duration
	// WithStaleness asks how old the copy of each cluster is.
	WithStaleness bool
	// ResourceVersion is a revision that the answer must not be older than.
	ResourceVersion int64

	// Unknown are parameters that mean nothing to a search.
	Unknown []string

	// exact asks for the state of ResourceVersion.
	exact bool
}

// Choice says which values are asked for.
type Choice struct {
	// In are the only values, if there are any.
	In []string
	// NotIn are values that are left out.
	NotIn []string
	// Exists is set if the value must not be empty, and Missing if it must be.
	Exists, Missing bool
}

// Empty reports whether everything is asked for.
func (c Choice) Empty() bool { return len(c.In)+len(c.NotIn) == 0 && !c.Exists && !c.Missing }

// Owner asks for objects that another one owns, by its UID or its name.
type Owner struct {
	UID  string
	Name string
	// Resource is the owner's. It is empty if that does not count.
	Resource schema.GroupResource
	// Seniority is how many generations are in between: 1 asks for grandchildren.
	Seniority int
}

// Order is a column or, if there is a path, a field to sort by.
type Order struct {
	Column     Column
	Path       []Step
	Descending bool
}

// Column is what objects can be sorted by.
type Column string

// The columns.
const (
	Cluster         Column = "cluster"
	Namespace       Column = "namespace"
	Name            Column = "name"
	UID             Column = "uid"
	CreatedAt       Column = "created_at"
	ResourceVersion Column = "resource_version"
	Group           Column = "group"
	Version         Column = "version"
	Resource        Column = "resource"
	Kind            Column = "kind"
)

// columns are all columns, as errors list them.
var columns = []Column{Cluster, Namespace, Name, UID, CreatedAt, ResourceVersion, Group, Version, Resource, Kind}

// Field is a requirement of a field of objects. A field that is not there, or null, is as one with the value "", but it does not exist.
type Field struct {
	// Paths are those of the field. If there are several, one of them must be as a positive operator says, and none may be what a negative one
	// excludes.
	Paths    [][]Step
	Operator selection.Operator
	Values   []string
	// Not turns Contains and StartsWith into negative operators.
	Not bool
	// IgnoreCase has A to Z be a to z to Contains and StartsWith.
	IgnoreCase bool
	// Bound is there if the operator compares, such as selection.GreaterThan.
	Bound *Bound
}

// Operators that look for one of some texts in a field, or at its beginning.
const (
	Contains   selection.Operator = "contains"
	StartsWith selection.Operator = "startswith"
)

// Step is a step of the path of a field.
type Step struct {
	// Name is the name of a field. It is empty for an element of a list.
	Name string
	// Index is the place of an element in a list. Each element is meant if it is negative: one of them must be as a positive operator says,
	// and none may be what a negative one excludes.
	Index int
}

// List reports whether the step is into a list.
func (s Step) List() bool { return s.Name == "" }
