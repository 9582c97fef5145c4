// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// mergedKeys are the top-level objects of a v2 document whose entries are merged. All else is that of the first backend, core.
var mergedKeys = []string{"paths", "definitions", "parameters"}

type object = map[string]json.RawMessage

// mergeJSON merges documents by the names of their paths, definitions and parameters. An entry comes from the
// first document that has it. So core's definitions of shared types (ObjectMeta, DeleteOptions, ...) win, which
// name the kinds of all groups. Local definitions and parameters that differ from core's, or that another backend has, get another name.
func mergeJSON(backends [][]byte, local []byte) ([]byte, error) {
	core := backends[0]
	var merged object
	if err := json.Unmarshal(core, &merged); err != nil {
		return nil, fmt.Errorf("document of core: %w", err)
	}
	entries := map[string]object{}
	add := func(doc []byte) error {
		if doc == nil {
			return nil
		}
		var top object
		if err := json.Unmarshal(doc, &top); err != nil {
			return err
		}
		for _, key := range mergedKeys {
			if err := addMissing(entries, key, top[key]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, doc := range backends {
		if err := add(doc); err != nil {
			return nil, err
		}
	}
	if local != nil {
		local, err := renameConflicts(local, core, func(section, name string) bool { return entries[section][name] != nil })
		if err == nil {
			err = add(local)
		}
		if err != nil {
			return nil, err
		}
	}
	for key, object := range entries {
		merged[key] = appendObject(nil, object)
	}
	return appendObject(nil, merged), nil
}

func addMissing(entries map[string]object, key string, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var from object
	if err := json.Unmarshal(raw, &from); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if entries[key] == nil {
		entries[key] = from
		return nil
	}
	for name, value := range from {
		if _, exists := entries[key][name]; !exists {
			entries[key][name] = value
		}
	}
	return nil
}

// appendObject writes an object with its keys in order and its values unchanged. json.Marshal would parse all
// values again.
func appendObject(b []byte, o object) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(o)) {
		if i > 0 {
			b = append(b, ',')
		}
		quoted, _ := json.Marshal(name) // a string can always be marshalled
		b = append(append(append(b, quoted...), ':'), o[name]...)
	}
	return append(b, '}')
}

// renameConflicts renames definitions and parameters of a local document if core has others of the same name, or if taken says that another
// backend has one, and the references to them. kube-openapi does the same when it merges specs.
func renameConflicts(local, core []byte, taken func(section, name string) bool) ([]byte, error) {
	var theirs, ours object
	if err := json.Unmarshal(local, &theirs); err != nil {
		return nil, fmt.Errorf("documents of aggregated API servers: %w", err)
	}
	if err := json.Unmarshal(core, &ours); err != nil {
		return nil, fmt.Errorf("document of core: %w", err)
	}
	for _, section := range []string{"definitions", "parameters"} {
		var their, our object
		if err := errors.Join(unmarshalSome(theirs[section], &their), unmarshalSome(ours[section], &our)); err != nil {
			return nil, fmt.Errorf("%s: %w", section, err)
		}
		renamed := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(their)) {
			same, exists := our[name]
			if exists && !equalButKinds(same, their[name]) || !exists && taken(section, name) {
				renamed[name] = freeName(name, func(name string) bool { return our[name] != nil || their[name] != nil || taken(section, name) })
			}
		}
		if len(renamed) == 0 {
			continue
		}
		for name, free := range renamed {
			their[free] = their[name]
			delete(their, name)
		}
		theirs[section] = appendObject(nil, their)
		for key, text := range theirs {
			theirs[key] = renameReferences(text, "#/"+section+"/", renamed)
		}
	}
	return appendObject(nil, theirs), nil
}

func unmarshalSome(text json.RawMessage, into *object) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// renameReferences returns a text of JSON with other names in references.
func renameReferences(text []byte, prefix string, renamed map[string]string) []byte {
	begin, changed := []byte(`"`+prefix), make([]byte, 0, len(text))
	for {
		at := bytes.Index(text, begin)
		if at < 0 {
			return append(changed, text...)
		}
		at += len(begin)
		changed, text = append(changed, text[:at]...), text[at:]
		end := bytes.IndexByte(text, '"')
		if end < 0 {
			return append(changed, text...)
		}
		if name, known := renamed[string(text[:end])]; known {
			changed, text = append(changed, name...), text[end:]
		}
	}
}

func freeName(name string, taken func(string) bool) string {
	for i := 2; ; i++ {
		if candidate := fmt.Sprintf("%s_v%d", name, i); !taken(candidate) {
			return candidate
		}
	}
}

// equalButKinds compares definitions without the list of kinds, into which each server puts its own.
func equalButKinds(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y map[string]any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	delete(x, "x-kubernetes-group-version-kind")
	delete(y, "x-kubernetes-group-version-kind")
	return reflect.DeepEqual(x, y)
}

// Fields of openapi.v2.Document (github.com/google/gnostic-models/openapiv2/OpenAPIv2.proto) that
// hold named entries, and the field of each that repeats them.
var entryFields = map[protowire.Number]protowire.Number{
	8:  2, // paths: Paths.path
	9:  1, // definitions: Definitions.additional_properties
	10: 1, // parameters: ParameterDefinitions.additional_properties
}

// maxEntries bounds the named entries of a document. A CustomResourceDefinition has seven.
const maxEntries = 100_000

// mergeProtobuf appends to the first document the named entries of the others that it lacks. A
// protobuf message that occurs twice in its parent is the merge of both, so this is a valid document.
func mergeProtobuf(documents ...[]byte) ([]byte, error) {
	type entryKey struct {
		field protowire.Number
		name  string
	}
	seen := map[entryKey]bool{}
	var merged []byte
	for i, doc := range documents {
		err := eachField(doc, func(field protowire.Number, raw, value []byte) error {
			entryField, named := entryFields[field]
			if !named {
				if i == 0 {
					merged = append(merged, raw...)
				}
				return nil
			}
			var kept []byte
			err := eachField(value, func(number protowire.Number, rawEntry, entry []byte) error {
				if number != entryField {
					return nil
				}
				name, err := entryName(entry)
				if err != nil {
					return err
				}
				if key := (entryKey{field, name}); !seen[key] {
					seen[key] = true
					kept = append(kept, rawEntry...)
				}
				return nil
			})
			if err != nil {
				return err
			}
			merged = protowire.AppendTag(merged, field, protowire.BytesType)
			merged = protowire.AppendBytes(merged, kept)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// addNames adds the names of definitions and parameters of a document in protobuf to those of other documents, by section.
func addNames(names map[string]map[string]bool, document []byte) error {
	return eachField(document, func(field protowire.Number, _, value []byte) error {
		section := names[map[protowire.Number]string{definitionsField: "definitions", parametersField: "parameters"}[field]]
		if section == nil {
			return nil
		}
		return eachField(value, func(number protowire.Number, _, entry []byte) error {
			if number != entryFields[field] {
				return nil
			}
			name, err := entryName(entry)
			section[name] = true
			return err
		})
	})
}

// readProtobuf keeps a protobuf document compressed, if it has not too many named entries.
func readProtobuf(document io.Reader, last *version) (*version, error) {
	text, err := io.ReadAll(io.LimitReader(document, maxDocument+1))
	if err != nil {
		return nil, err
	}
	entries := 0
	err = eachField(text, func(field protowire.Number, _, value []byte) error {
		if _, named := entryFields[field]; !named {
			return nil
		}
		return eachField(value, func(protowire.Number, []byte, []byte) error {
			if entries++; entries > maxEntries {
				return fmt.Errorf("it has more than %d entries", maxEntries)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return readWhole(bytes.NewReader(text), last)
}

// entryName returns field 1 of a named entry.
func entryName(entry []byte) (string, error) {
	name := ""
	err := eachField(entry, func(number protowire.Number, _, value []byte) error {
		if number == 1 {
			name = string(value)
		}
		return nil
	})
	return name, err
}

// eachField calls the function with every field of a message: its number, its bytes with the tag,
// and, for length-delimited ones, its value.
func eachField(message []byte, visit func(number protowire.Number, raw, value []byte) error) error {
	for len(message) > 0 {
		number, wireType, tagLength := protowire.ConsumeTag(message)
		if tagLength < 0 {
			return fmt.Errorf("protobuf document: %w", protowire.ParseError(tagLength))
		}
		length := protowire.ConsumeFieldValue(number, wireType, message[tagLength:])
		if length < 0 {
			return fmt.Errorf("protobuf document: %w", protowire.ParseError(length))
		}
		raw := message[:tagLength+length]
		var value []byte
		if wireType == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[tagLength:])
		}
		if err := visit(number, raw, value); err != nil {
			return err
		}
		message = message[tagLength+length:]
	}
	return nil
}
