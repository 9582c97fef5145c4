// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// limits are the group-versions that clients may find in the documents of an API service of others. It could otherwise document paths and
// kinds of others: clients look for the schema of a kind by x-kubernetes-group-version-kind, under whichever name.
type limits struct {
	shown  map[schema.GroupVersion]bool
	groups map[string]bool
}

// newLimits takes of the group-versions that a document names those that its server serves.
func newLimits(named []schema.GroupVersion, serves func(schema.GroupVersion) bool) limits {
	l := limits{shown: map[schema.GroupVersion]bool{}, groups: map[string]bool{}}
	for _, gv := range named {
		if serves(gv) {
			l.shown[gv], l.groups[gv.Group] = true, true
		}
	}
	return l
}

// String names the group-versions, for the ETag of what is merged.
func (l limits) String() string { return fmt.Sprint(l.shown) }

// form is a form of documents whose parts can be limited.
type form struct {
	// named returns the group-versions that the paths of a document are about.
	named func(document []byte) ([]schema.GroupVersion, error)
	// limit returns of a document what clients may find.
	limit func(document []byte, l limits) ([]byte, error)
}

var (
	formJSON     = form{namedInJSON, limitJSON}
	formProtobuf = form{namedInProtobuf, limitProtobuf}
)

// ofPath returns the group, and the version if there is one, that a path such as /apis/apps/v1/deployments is about. A name such as
// apis/apps/v1 will do.
func ofPath(path string) (gv schema.GroupVersion, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 4)
	if len(parts) < 2 || parts[0] != "apis" || parts[1] == "" {
		return gv, false
	}
	gv.Group = parts[1]
	if len(parts) > 2 {
		gv.Version = parts[2]
	}
	return gv, true
}

// namedBy returns the group-versions that paths are about.
func namedBy[V any](paths map[string]V) []schema.GroupVersion {
	found := map[schema.GroupVersion]bool{}
	var all []schema.GroupVersion
	for path := range paths {
		if gv, ok := ofPath(path); ok && gv.Version != "" && !found[gv] {
			found[gv] = true
			all = append(all, gv)
		}
	}
	return all
}

// path reports whether clients may find a path.
func (l limits) path(path string) bool {
	gv, ok := ofPath(path)
	return ok && (l.shown[gv] || gv.Version == "" && l.groups[gv.Group])
}

const kindsExtension = "x-kubernetes-group-version-kind"

// maxKinds bounds the list of the kinds of a definition, in bytes.
const maxKinds = 64 << 10

// kinds reports whether clients may find the kinds of a definition.
func (l limits) kinds(text []byte, unmarshal func([]byte, any) error) bool {
	var kinds []map[string]string // in a struct, encoding/json would also take Group for group
	return len(text) <= maxKinds && unmarshal(text, &kinds) == nil && !slices.ContainsFunc(kinds, func(kind map[string]string) bool {
		for key := range kind {
			if key != "group" && key != "version" && key != "kind" {
				return true
			}
		}
		return !l.shown[schema.GroupVersion{Group: kind["group"], Version: kind["version"]}]
	})
}

var errAlias = errors.New("the list has an anchor or an alias")

// unmarshalYAML refuses aliases, which make gigabytes of 64 KiB. No name of a kind has their characters.
func unmarshalYAML(text []byte, into any) error {
	if bytes.ContainsAny(text, "&*") {
		return errAlias
	}
	return yaml.Unmarshal(text, into)
}

// documentJSON is what is merged of a document.
type documentJSON struct {
	Paths       object `json:"paths"`
	Definitions object `json:"definitions"`
	Parameters  object `json:"parameters"`
}

func namedInJSON(document []byte) ([]schema.GroupVersion, error) {
	var d struct {
		Paths object `json:"paths"`
	}
	err := json.Unmarshal(document, &d)
	return namedBy(d.Paths), err
}

func limitJSON(document []byte, l limits) ([]byte, error) {
	var d documentJSON
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	for path := range d.Paths {
		if !l.path(path) {
			delete(d.Paths, path)
		}
	}
	for name, raw := range d.Definitions {
		var definition object
		if err := json.Unmarshal(raw, &definition); err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		if kinds, has := definition[kindsExtension]; has && !l.kinds(kinds, json.Unmarshal) {
			delete(definition, kindsExtension)
			d.Definitions[name] = appendObject(nil, definition)
		}
	}
	return json.Marshal(d)
}

// Fields of openapi.v2.Document and of the messages in it.
const (
	pathsField, definitionsField, parametersField = 8, 9, 10
	valueField                                    = 2 // of a named entry
	extensionField, anyYAMLField                  = 31, 2
)

func namedInProtobuf(document []byte) ([]schema.GroupVersion, error) {
	paths := map[string]bool{}
	err := eachField(document, func(field protowire.Number, _, value []byte) error {
		if field != pathsField {
			return nil
		}
		return eachField(value, func(number protowire.Number, _, entry []byte) error {
			if number != entryFields[pathsField] {
				return nil
			}
			name, err := entryName(entry)
			paths[name] = true
			return err
		})
	})
	return namedBy(paths), err
}

func limitProtobuf(document []byte, l limits) (limited []byte, err error) {
	err = eachField(document, func(field protowire.Number, raw, value []byte) error {
		entries, named := entryFields[field]
		if !named || field != pathsField && field != definitionsField {
			limited = append(limited, raw...)
			return nil
		}
		var kept []byte
		if err := eachField(value, func(number protowire.Number, rawEntry, entry []byte) error {
			if number != entries {
				return nil
			}
			if field == definitionsField {
				without, err := l.definition(entry)
				kept = appendBytes(kept, number, without)
				return err
			}
			name, err := entryName(entry)
			if err == nil && l.path(name) {
				kept = append(kept, rawEntry...)
			}
			return err
		}); err != nil {
			return err
		}
		limited = appendBytes(limited, field, kept)
		return nil
	})
	return limited, err
}

// definition returns a named definition, without its kinds if clients may not find them.
func (l limits) definition(entry []byte) (kept []byte, err error) {
	err = eachField(entry, func(number protowire.Number, raw, value []byte) error {
		if number != valueField {
			kept = append(kept, raw...)
			return nil
		}
		var definition []byte
		err := eachField(value, func(number protowire.Number, raw, extension []byte) error {
			if number == extensionField {
				name, text, err := extensionOf(extension)
				if err != nil || name == kindsExtension && !l.kinds(text, unmarshalYAML) {
					return err
				}
			}
			definition = append(definition, raw...)
			return nil
		})
		kept = appendBytes(kept, valueField, definition)
		return err
	})
	return kept, err
}

// extensionOf returns the name and the YAML of an extension.
func extensionOf(extension []byte) (name string, text []byte, err error) {
	if name, err = entryName(extension); err != nil {
		return "", nil, err
	}
	err = eachField(extension, func(number protowire.Number, _, value []byte) error {
		if number != valueField {
			return nil
		}
		return eachField(value, func(number protowire.Number, _, value []byte) error {
			if number == anyYAMLField {
				text = value
			}
			return nil
		})
	})
	return name, text, err
}

func appendBytes(message []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, field, protowire.BytesType), value)
}
