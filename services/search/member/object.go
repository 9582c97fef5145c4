// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/services/search/apis/search/v1beta1"
	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/access"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// Objects are read with what will be encoding/json/v2. With encoding/json, one of 3 kB took eight times as long (205 rather than 27 µs,
// BenchmarkNewObject), which was most of what a first list cost this process.
//
// Each object is read once, here, by strict rules, and written anew. So all that read it afterwards, with whatever parser, read the same.

// asSent reads what is around objects. Objects that are wrong do not end a list.
var asSent = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// lastApplied repeats the whole object for kubectl apply.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// RefusedError says that an object is not what Kubernetes' API allows, so it is not stored.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refuse(reason string, args ...any) error { return &RefusedError{fmt.Sprintf(reason, args...)} }

func isRefused(err error) bool { return errors.As(err, new(*RefusedError)) }

// document is the text of an object.
type document struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   jsontext.Value `json:"metadata"`
	Rest       jsontext.Value `json:",embed"`
}

// metadata is ObjectMeta, with the types that Kubernetes gives its fields.
type metadata struct {
	Name                       string            `json:"name,omitzero"`
	GenerateName               string            `json:"generateName,omitzero"`
	Namespace                  string            `json:"namespace,omitzero"`
	SelfLink                   string            `json:"selfLink,omitzero"`
	UID                        string            `json:"uid,omitzero"`
	ResourceVersion            string            `json:"resourceVersion,omitzero"`
	Generation                 int64             `json:"generation,omitzero"`
	CreationTimestamp          *time.Time        `json:"creationTimestamp,omitzero"`
	DeletionTimestamp          *time.Time        `json:"deletionTimestamp,omitzero"`
	DeletionGracePeriodSeconds *int64            `json:"deletionGracePeriodSeconds,omitzero"`
	Labels                     map[string]string `json:"labels,omitzero"`
	Annotations                map[string]string `json:"annotations,omitzero"`
	OwnerReferences            owners            `json:"ownerReferences,omitzero"`
	Finalizers                 []string          `json:"finalizers,omitzero"`
	ManagedFields              jsontext.Value    `json:"managedFields,omitzero"`
	Rest                       jsontext.Value    `json:",embed"`
}

// owner is an OwnerReference. Fields that Kubernetes does not know are not kept: a parser could take one for another.
type owner struct {
	APIVersion         string `json:"apiVersion,omitzero"`
	Kind               string `json:"kind,omitzero"`
	Name               string `json:"name,omitzero"`
	UID                string `json:"uid,omitzero"`
	Controller         *bool  `json:"controller,omitzero"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitzero"`
}

// maxReferences is how many owners and how many labels an object may have. Each is a row of the database, and objects have a few.
const maxReferences = 1000

// owners are few, or they are not decoded.
type owners []owner

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *owners) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	begin, err := from.ReadToken()
	switch {
	case err != nil || begin.Kind() == 'n':
		return err
	case begin.Kind() != '[':
		return errors.New("ownerReferences are no list")
	}
	for from.PeekKind() != ']' {
		if len(*o) == maxReferences {
			return fmt.Errorf("there are more than %d owners", maxReferences)
		}
		var one owner
		if err := json.UnmarshalDecode(from, &one); err != nil {
			return err
		}
		*o = append(*o, one)
	}
	_, err = from.ReadToken()
	return err
}

// bookmark is what counts of the object of a bookmark.
type bookmark struct {
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}

func readBookmark(object []byte) (b bookmark, err error) {
	if len(object) > failureSize {
		return b, limited("object-size", "", "a bookmark has more than %d bytes", failureSize)
	}
	err = json.Unmarshal(object, &struct {
		Metadata *bookmark `json:"metadata"`
	}{&b}, asSent)
	if err == nil && len(b.ResourceVersion) > maxVersion {
		err = errors.New("the resourceVersion of a bookmark is too long")
	}
	return b, err
}

// NewObject returns an object of a cluster as the store keeps it: with its kind, which items of lists do not have, and with the name of the
// cluster and the resourceVersion there, but without what only says who wrote which fields. If the object is refused, the error is a
// *RefusedError, and the result has the namespace and the name if these could be read. If no object of the store can have them, it has
// others that stand for them.
func NewObject(cluster string, kind streams.Kind, text []byte) (store.Object, error) {
	var d document
	var m metadata
	if err := checkValues(text); err != nil {
		return identityOf(kind, text), refuse("%s", err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return identityOf(kind, text), refuse("%s", err)
	}
	if len(d.Metadata) > 0 {
		if err := json.Unmarshal(d.Metadata, &m); err != nil {
			return identityOf(kind, text), refuse("metadata: %s", err)
		}
	}
	o, err := identity(kind, m.Namespace, m.Name)
	if err != nil {
		return o, err
	}
	if err := errors.Join(checkType(kind, &d), checkMetadata(&m)); err != nil {
		return o, refuse("%s", strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	o.UID, o.ResourceVersion, o.Labels = m.UID, m.ResourceVersion, m.Labels
	if m.CreationTimestamp != nil {
		o.CreatedAt = m.CreationTimestamp.Unix()
	}
	for _, owner := range m.OwnerReferences {
		if len(owner.UID) <= maxUID { // no object has a longer one
			o.Owners = append(o.Owners, owner.UID)
		}
	}
	if o.JSON, err = rewritten(cluster, kind, &d, &m); err == nil {
		err = checkText(kind, o.JSON)
	}
	if err != nil {
		return store.Object{Namespace: m.Namespace, Name: m.Name}, refuse("%s", err)
	}
	return o, nil
}

// rewritten returns the text of an object as the store keeps it.
func rewritten(cluster string, kind streams.Kind, d *document, m *metadata) ([]byte, error) {
	m.ManagedFields = nil
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	delete(m.Annotations, lastApplied)
	m.Annotations[v1beta1.ClusterAnnotation] = cluster
	m.Annotations[v1beta1.ResourceVersionAnnotation] = m.ResourceVersion // the store sets its own
	var err error
	d.APIVersion, d.Kind = kind.GroupVersionKind().ToAPIVersionAndKind()
	if d.Metadata, err = json.Marshal(m, json.Deterministic(true)); err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

// What the columns of the database take, which is what Kubernetes allows, or more.
const (
	maxName, maxUID, maxVersion, maxLabel = 512, 64, 255, 317
)

// identity returns an object of a namespace and a name, and refuses those that are none.
func identity(kind streams.Kind, namespace, name string) (store.Object, error) {
	switch {
	case name == "":
		return store.Object{}, refuse("an object without a name")
	case kind.Namespaced && len(validation.IsDNS1123Label(namespace)) > 0:
		return store.Object{}, refuse("%.80q is not the name of a namespace", namespace)
	case !kind.Namespaced && namespace != "":
		return store.Object{}, refuse("%s %.80q has a namespace, and objects of its kind have none", kind.Resource, name)
	case utf8.RuneCountInString(name) > maxName:
		return store.Object{Namespace: namespace, Name: standIn(name)}, refuse("a name of more than %d characters", maxName)
	case len(content.IsPathSegmentName(name)) > 0:
		return store.Object{Namespace: namespace, Name: standIn(name)}, refuse("%q is not the name of an object", name)
	}
	return store.Object{Namespace: namespace, Name: name}, nil
}

// standIn returns the name under which a refused object is known whose own name the store cannot have. No object can have this one. So the
// store has no older state of the object, and a watch can go on after it.
func standIn(name string) string {
	sum := sha256.Sum256([]byte(name))
	return shortened(name, 80) + "%" + hex.EncodeToString(sum[:])
}

// identityOf returns the namespace and the name of an object that is wrong elsewhere, or nothing if they cannot be read.
func identityOf(kind streams.Kind, text []byte) store.Object {
	var d struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if json.Unmarshal(text, &d) != nil {
		return store.Object{}
	}
	o, _ := identity(kind, d.Metadata.Namespace, d.Metadata.Name)
	return o
}

// checkType refuses objects of another kind than that of the stream. Items of lists need not say theirs.
func checkType(kind streams.Kind, d *document) error {
	apiVersion, name := kind.GroupVersionKind().ToAPIVersionAndKind()
	if d.APIVersion != "" && d.APIVersion != apiVersion || d.Kind != "" && d.Kind != name {
		return fmt.Errorf("a %.80q of %.80q among the %s of %s", d.Kind, d.APIVersion, kind.Resource, apiVersion)
	}
	return nil
}

func checkMetadata(m *metadata) error {
	if len(m.UID) > maxUID || len(m.ResourceVersion) > maxVersion {
		return errors.New("the uid or the resourceVersion is too long")
	}
	if len(m.Labels) > maxReferences {
		return fmt.Errorf("there are more than %d labels", maxReferences)
	}
	for label, value := range m.Labels {
		if len(label) > maxLabel || len(value) > validation.LabelValueMaxLength {
			return fmt.Errorf("the label %.80q or its value is too long", label)
		}
	}
	return nil
}

// refusedObject returns what stands for an object that is refused. Without one of its RBAC objects, what a cluster allows is not known, so
// it allows nothing: this one cannot be read as what it is.
func refusedObject(cluster string, kind streams.Kind, o store.Object, why error) store.Change {
	if kind.Group != rbacv1.GroupName {
		return store.Change{Object: store.Object{Namespace: o.Namespace, Name: o.Name}, Deleted: true}
	}
	apiVersion, name := kind.GroupVersionKind().ToAPIVersionAndKind()
	unreadable := "refused"
	text, _ := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": name, "rules": unreadable, "subjects": unreadable, "roleRef": unreadable, "metadata": &metadata{
			Namespace: o.Namespace, Name: o.Name,
			Annotations: map[string]string{
				v1beta1.ClusterAnnotation: cluster, v1beta1.ResourceVersionAnnotation: "",
				access.RefusedAnnotation: shortened(why.Error(), maxMessage),
			},
		},
	}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return store.Change{Object: store.Object{Namespace: o.Namespace, Name: o.Name, JSON: text}}
}
