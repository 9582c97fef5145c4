// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/query"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/objectjson"
	"github.com/tripod-k8s/tripod/services/search/tables"
)

// anyCollection is the collection whose resources the client names.
const anyCollection = "any"

// collections are the resources of each collection.
var collections = map[string][]schema.GroupVersionResource{
	anyCollection: nil,
	"workloads": {
		{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "daemonsets"}, {Group: "apps", Resource: "statefulsets"},
	},
	"kuberesources": builtInGroups(),
}

func builtInGroups() (all []schema.GroupVersionResource) {
	for _, gv := range clientgoscheme.Scheme.PreferredVersionAllGroups() {
		all = append(all, schema.GroupVersionResource{Group: gv.Group})
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.Group, b.Group) })
	return all
}

// Collections is the storage of collectionresources. It lists them and makes discovery show them: Handler answers with each of them.
type Collections struct{}

var (
	_ rest.Getter               = Collections{}
	_ rest.Lister               = Collections{}
	_ rest.Scoper               = Collections{}
	_ rest.SingularNameProvider = Collections{}
)

// New implements rest.Storage.
func (Collections) New() runtime.Object { return &v1beta1.CollectionResource{} }

// NewList implements rest.Lister.
func (Collections) NewList() runtime.Object { return &v1beta1.CollectionResourceList{} }

// Destroy implements rest.Storage.
func (Collections) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (Collections) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (Collections) GetSingularName() string { return "collectionresource" }

// List implements rest.Lister: it returns the collections without their objects.
func (Collections) List(context.Context, *metainternal.ListOptions) (runtime.Object, error) {
	list := &v1beta1.CollectionResourceList{}
	for _, name := range []string{anyCollection, "workloads", "kuberesources"} {
		collection := v1beta1.CollectionResource{ObjectMeta: metav1.ObjectMeta{Name: name}, ResourceTypes: []v1beta1.CollectionResourceType{}}
		for _, r := range collections[name] {
			collection.ResourceTypes = append(collection.ResourceTypes, v1beta1.CollectionResourceType{Group: r.Group, Version: r.Version,
				Resource: r.Resource})
		}
		list.Items = append(list.Items, collection)
	}
	return list, nil
}

// Get implements rest.Getter. It is not reached: Handler answers with collections, object by object.
func (Collections) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return nil, unknownCollection(name)
}

func unknownCollection(name string) error {
	return apierrors.NewNotFound(v1beta1.GroupVersion.WithResource("collectionresources").GroupResource(), name)
}

// collection answers with the objects of a collection.
func (h *Handler) collection(w http.ResponseWriter, req *http.Request, name string) error {
	as, err := accepted(req)
	if err != nil {
		return err
	}
	patterns, known := collections[name]
	if !known {
		return unknownCollection(name)
	}
	values := req.URL.Query()
	q, err := query.Parse(values, "groups", "resources")
	if err == nil && name == anyCollection {
		patterns, err = patternsOf(values)
	} else if err == nil && (values.Has("groups") || values.Has("resources")) {
		err = fmt.Errorf("parameters groups and resources are only for the collection %s", anyCollection)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	warnParameters(req.Context(), q)
	if err := h.warnClusters(req.Context(), q); err != nil {
		return err
	}
	if len(q.GroupBy) > 0 {
		return h.counts(w, req, as, patterns, q)
	}
	memory := h.budget.hold(req.Context())
	defer memory.release()
	a, err := h.search(req, patterns, q, memory)
	if err != nil && !apierrors.IsNotFound(err) { // no cluster has such resources
		return err
	}
	a.collection, a.onlyMetadata = name, q.OnlyMetadata
	return as.write(w, req, a)
}

// ofCollection returns what is written of a collection.
func (r representation) ofCollection(req *http.Request, a *answer) (d *document, err error) {
	d = &document{number: len(a.objects), list: "items", item: func(i int) ([]byte, error) { return a.objects[i].JSON, nil }}
	if a.onlyMetadata {
		d.item = func(i int) ([]byte, error) { return tables.WithoutContent(a.objects[i].JSON) }
	}
	var head any
	switch metadata := (metav1.ObjectMeta{Name: a.collection, ResourceVersion: a.meta.ResourceVersion}); r.form {
	case table:
		of := tables.OfSeveralKinds(metav1.IncludeObjectPolicy(req.URL.Query().Get("includeObject")))
		d.list, d.item = "rows", func(i int) ([]byte, error) { return rowOf(req.Context(), of, a.objects[i].Cluster, a.objects[i].JSON) }
		head = tableHead(metav1.ListMeta{}, of)
	case metadataOnly: // that of the collection
		only := metav1.PartialObjectMetadata{ObjectMeta: metadata}
		only.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		d.single, d.number, d.item = true, 1, func(int) ([]byte, error) { return json.Marshal(only) }
	default:
		collection := &v1beta1.CollectionResource{
			ObjectMeta: metadata, ResourceTypes: resourceTypes(a.objects), Continue: a.meta.Continue, RemainingItemCount: a.meta.RemainingItemCount,
		}
		collection.APIVersion, collection.Kind = v1beta1.GroupVersion.WithKind("CollectionResource").ToAPIVersionAndKind()
		head = collection
	}
	d.head, err = json.Marshal(head)
	return d, err
}

// resourceTypes returns the resources of objects.
func resourceTypes(objects []store.Found) []v1beta1.CollectionResourceType {
	all := []v1beta1.CollectionResourceType{}
	for _, f := range objects {
		t := v1beta1.CollectionResourceType{Group: f.Kind.Group, Version: f.Kind.Version, Kind: f.Kind.Kind, Resource: f.Resource}
		if kind := objectjson.KindOf(f.JSON); kind != "" { // clusters may name it differently
			t.Kind = kind
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// patternsOf returns the resources that the parameters groups and resources name, as Clusterpedia reads them: GROUP or GROUP/VERSION, and
// GROUP/RESOURCE or GROUP/VERSION/RESOURCE. The core group is empty, and the group * stands for everything.
func patternsOf(values url.Values) (patterns []schema.GroupVersionResource, err error) {
	if !values.Has("groups") && !values.Has("resources") {
		return nil, fmt.Errorf("the collection %s needs the parameter groups or resources", anyCollection)
	}
	if values.Has("groups") {
		for text := range strings.SplitSeq(strings.ReplaceAll(values.Get("groups"), " ", ""), ",") {
			group, version, _ := strings.Cut(text, "/")
			switch {
			case text == "*":
				return nil, nil
			case strings.Contains(version, "/"):
				return nil, fmt.Errorf("parameter groups: %q is neither GROUP nor GROUP/VERSION", text)
			}
			patterns = append(patterns, schema.GroupVersionResource{Group: group, Version: version})
		}
	}
	if values.Has("resources") {
		for text := range strings.SplitSeq(strings.ReplaceAll(values.Get("resources"), " ", ""), ",") {
			parts := strings.Split(text, "/")
			if len(parts) < 2 || len(parts) > 3 || parts[len(parts)-1] == "" {
				return nil, fmt.Errorf("parameter resources: %q is neither GROUP/RESOURCE nor GROUP/VERSION/RESOURCE", text)
			}
			pattern := schema.GroupVersionResource{Group: parts[0], Resource: parts[len(parts)-1]}
			if len(parts) == 3 {
				pattern.Version = parts[1]
			}
			patterns = append(patterns, pattern)
		}
	}
	if len(patterns) > query.MaxValues {
		return nil, fmt.Errorf("parameters groups and resources: more than %d values", query.MaxValues)
	}
	return patterns, nil
}

// ConvertToTable implements rest.TableConvertor.
func (Collections) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	if list, of := object.(*v1beta1.CollectionResourceList); of {
		return tableOfCollections(list), nil
	}
	return nil, fmt.Errorf("%T has no table", object)
}

func tableOfCollections(list *v1beta1.CollectionResourceList) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"},
		{Name: "Resources", Type: "string"}}}
	for i := range list.Items {
		resources := "*"
		if types := list.Items[i].ResourceTypes; len(types) > 0 {
			var names []string
			for _, t := range types {
				resource := t.Resource
				if resource == "" {
					resource = "*"
				}
				names = append(names, resource+"."+t.Group)
			}
			resources = strings.Join(names, ",")
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{list.Items[i].Name, resources},
			Object: runtime.RawExtension{Object: &list.Items[i]}})
	}
	return table
}

// Resources is the storage of resources. It only makes discovery list them: Handler answers what is below them.
type Resources struct{}

var (
	_ rest.Connecter            = Resources{}
	_ rest.Scoper               = Resources{}
	_ rest.SingularNameProvider = Resources{}
)

// New implements rest.Storage.
func (Resources) New() runtime.Object { return &v1beta1.Resources{} }

// Destroy implements rest.Storage.
func (Resources) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (Resources) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (Resources) GetSingularName() string { return "resources" }

// ConnectMethods implements rest.Connecter.
func (Resources) ConnectMethods() []string { return []string{http.MethodGet} }

// NewConnectOptions implements rest.Connecter.
func (Resources) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// Connect implements rest.Connecter. It is not reached for paths that Handler answers.
func (Resources) Connect(_ context.Context, name string, _ runtime.Object, _ rest.Responder) (http.Handler, error) {
	return nil, apierrors.NewNotFound(v1beta1.GroupVersion.WithResource("resources").GroupResource(), name)
}
