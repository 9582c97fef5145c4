// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/openapiconv"
	openapispec "k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tripod-k8s/tripod/base/hop/parts"
	"github.com/tripod-k8s/tripod/base/hop/recovery"
)

// Values without a schema, such as extensions and defaults, are YAML in protobuf, in which each line begins with blanks for each level.
// That of kube-apiserver would have 2 MiB of them if all of it were without a schema.
const indentOfAny, maxBlanks = 4, 24 << 20

var errDeepTexts = errors.New("its values have too many lines in too many levels")

// OfGroupVersion returns of the OpenAPI v2 document of an aggregated API server what kube-aggregator may merge with the documents of others
// for an APIService: its definitions name kinds of the group-version only, or clients would take them for those of others. It fails for a
// document with which kube-aggregator could not go on: its libraries panic, also in goroutines that end the process, or fail for the
// documents of all servers together.
func OfGroupVersion(document []byte, gv schema.GroupVersion) (limited []byte, err error) {
	defer recovery.ToError("OpenAPI v2 of "+gv.String(), &err)
	if parts.Blanks(document, indentOfAny) > maxBlanks {
		return nil, errDeepTexts
	}
	var top object
	if err := json.Unmarshal(document, &top); err != nil {
		return nil, err
	}
	if err := checkNames(top); err != nil {
		return nil, err
	}
	l := newLimits([]schema.GroupVersion{gv}, func(schema.GroupVersion) bool { return true })
	if top["definitions"], err = l.definitions(top["definitions"]); err != nil {
		return nil, err
	}
	limited = appendObject(nil, top)
	return limited, tryMerge(limited)
}

// IndexOfGroupVersion returns of the OpenAPI v3 index of an aggregated API server where the documents about the group-version of an
// APIService are. kube-aggregator would show any name of it, also of documents of others.
func IndexOfGroupVersion(index []byte, gv schema.GroupVersion) ([]byte, error) {
	type document struct {
		URL string `json:"serverRelativeURL"`
	}
	var top struct {
		Paths map[string]document `json:"paths"`
	}
	if err := json.Unmarshal(index, &top); err != nil {
		return nil, err
	}
	maps.DeleteFunc(top.Paths, func(name string, of document) bool {
		path, _, _ := strings.Cut(of.URL, "?")
		return name != "apis/"+gv.String() && name != "apis/"+gv.Group || path != pathV3+"/"+name
	})
	return json.Marshal(top)
}

// definitions returns definitions without the kinds of others.
func (l limits) definitions(text json.RawMessage) (json.RawMessage, error) {
	var definitions object
	if err := unmarshalSome(text, &definitions); err != nil {
		return nil, fmt.Errorf("definitions: %w", err)
	}
	for name, raw := range definitions {
		limited, err := l.definitionJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		definitions[name] = limited
	}
	return appendObject(nil, definitions), nil
}

// definitionJSON returns a definition without its kinds that clients may not find.
func (l limits) definitionJSON(raw json.RawMessage) (json.RawMessage, error) {
	var definition object
	if err := json.Unmarshal(raw, &definition); err != nil {
		return nil, err
	}
	text, has := definition[kindsExtension]
	if !has || l.kinds(text, json.Unmarshal) {
		return raw, nil
	}
	var all, shown []map[string]string
	if len(text) <= maxKinds && json.Unmarshal(text, &all) == nil {
		for _, kind := range all {
			if one, err := json.Marshal([]map[string]string{kind}); err == nil && l.kinds(one, json.Unmarshal) {
				shown = append(shown, kind)
			}
		}
	}
	if delete(definition, kindsExtension); len(shown) > 0 {
		kept, err := json.Marshal(shown)
		if err != nil {
			return nil, err
		}
		definition[kindsExtension] = kept
	}
	return appendObject(nil, definition), nil
}

// checkNames refuses names of definitions and parameters that cannot be in a reference.
func checkNames(top object) error {
	for _, section := range []string{"definitions", "parameters", "responses"} {
		var named object
		if err := unmarshalSome(top[section], &named); err != nil {
			return fmt.Errorf("%s: %w", section, err)
		}
		for name := range named {
			if _, err := openapispec.NewRef("#/" + section + "/" + name); err != nil || strings.ContainsAny(name, "\"\\") {
				return fmt.Errorf("%q is no name in %s", name, section)
			}
		}
	}
	return nil
}

// trying is locked while a document is tried: it may take 50 times its size.
var trying sync.Mutex

// tryMerge does with a document what kube-aggregator and the merge do.
func tryMerge(document []byte) error {
	trying.Lock()
	defer trying.Unlock()
	of, merged := &openapispec.Swagger{}, &openapispec.Swagger{}
	if err := of.UnmarshalJSON(document); err != nil {
		return err
	}
	openapiconv.ConvertV2ToV3(of)
	merged.Swagger, merged.Info = "2.0", &openapispec.Info{InfoProps: openapispec.InfoProps{Title: "Kubernetes", Version: "unversioned"}}
	if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(merged, of); err != nil {
		return err
	}
	text, err := merged.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = handler.ToProtoBinary(text)
	return err
}
