// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

const (
	// definitionsInterval is how often a member is asked which of its definitions have changed, and definitionsTimeout how long that may take.
	definitionsInterval = time.Minute
	definitionsTimeout  = time.Minute
	// maxColumns is how many columns of a version of a definition count, and maxColumnsSize bounds the JSON of those of all its versions.
	maxColumns     = 64
	maxColumnsSize = 64 << 10
	// maxColumnsOfMember bounds the JSON of the columns of all definitions. Those that come later in the order of names have none.
	maxColumnsOfMember = 1 << 20

	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// definitions are the CustomResourceDefinitions of a member, which have the printer columns of its custom resources.
type definitions struct {
	client rest.Interface
	// single reads a document, and passes it on.
	single func(ctx context.Context, request *rest.Request, use func(document []byte) error) error
	next   time.Time
	// versions are the resourceVersions of those whose columns are known, by name.
	versions map[string]string
	// columns are by name and version of the API.
	columns map[string]map[string][]byte
}

// describe sets the columns of kinds. It reads those definitions again that have changed, if it is time to look. Not every member lets its
// definitions be read.
func (d *definitions) describe(ctx context.Context, kinds []streams.Kind) error {
	var err error
	if !time.Now().Before(d.next) {
		ctx, cancel := context.WithTimeout(ctx, definitionsTimeout)
		err = d.read(ctx, kinds)
		cancel()
		d.next = time.Now().Add(definitionsInterval)
	}
	for i := range kinds {
		kinds[i].Columns = d.columns[definitionOf(kinds[i])][kinds[i].Version]
	}
	return err
}

// definitionOf returns the name of the definition of a kind.
func definitionOf(kind streams.Kind) string { return kind.GroupResource().String() }

func (d *definitions) read(ctx context.Context, kinds []streams.Kind) error {
	wanted := map[string]bool{}
	for _, kind := range kinds {
		if !clientgoscheme.Scheme.IsGroupRegistered(kind.Group) {
			wanted[definitionOf(kind)] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	now, err := d.metadata(ctx, wanted)
	if err != nil {
		return err
	}
	versions, columns := map[string]string{}, map[string]map[string][]byte{}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		version, exists := now[name]
		if !exists || size > maxColumnsOfMember {
			continue // it is served by an aggregated API server, or there is no room
		}
		if columns[name] = d.columns[name]; d.versions[name] != version {
			if columns[name], err = d.columnsOf(ctx, name); err != nil {
				return err
			}
		}
		for _, text := range columns[name] {
			size += len(text)
		}
		if size > maxColumnsOfMember {
			delete(columns, name)
			continue
		}
		versions[name] = version
	}
	d.versions, d.columns = versions, columns
	return nil
}

// metadata returns the resourceVersions of definitions by name. Of others, it keeps nothing: a member may send pages as long as there is
// time.
func (d *definitions) metadata(ctx context.Context, wanted map[string]bool) (map[string]string, error) {
	versions := map[string]string{}
	for token := ""; ; {
		request := d.client.Get().AbsPath(definitionsPath).Param("limit", strconv.Itoa(pageSize)).
			SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		if token != "" {
			request.Param("continue", token)
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []struct {
				Metadata struct {
					Name            string `json:"name"`
					UID             string `json:"uid"`
					ResourceVersion string `json:"resourceVersion"`
				} `json:"metadata"`
			} `json:"items"`
		}
		if err := d.document(ctx, request, &page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			is := &page.Items[i].Metadata
			if wanted[is.Name] && len(is.UID) <= maxUID && len(is.ResourceVersion) <= maxVersion {
				versions[is.Name] = is.UID + "/" + is.ResourceVersion
			}
		}
		if token = page.Metadata.Continue; token == "" {
			return versions, nil
		}
	}
}

// column is a CustomResourceColumnDefinition.
type column struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Format      string `json:"format,omitzero"`
	Description string `json:"description,omitzero"`
	Priority    int32  `json:"priority,omitzero"`
	JSONPath    string `json:"jsonPath"`
}

// columnsOf returns the columns of each version of a definition.
func (d *definitions) columnsOf(ctx context.Context, name string) (map[string][]byte, error) {
	var list struct {
		Items []struct {
			Spec struct {
				Versions []struct {
					Name                     string   `json:"name"`
					AdditionalPrinterColumns []column `json:"additionalPrinterColumns"`
				} `json:"versions"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := d.document(ctx, d.client.Get().AbsPath(definitionsPath).Param("fieldSelector", "metadata.name="+name), &list); err != nil {
		return nil, err
	}
	columns := map[string][]byte{}
	left := maxColumnsSize
	for _, item := range list.Items {
		for _, version := range item.Spec.Versions {
			if all := version.AdditionalPrinterColumns; len(all) > 0 {
				text, err := json.Marshal(all[:min(len(all), maxColumns)])
				if size := len(version.Name) + len(text); err == nil && size <= left {
					left -= size
					columns[version.Name] = text
				}
			}
		}
	}
	return columns, nil
}

func (d *definitions) document(ctx context.Context, request *rest.Request, into any) error {
	return d.single(ctx, request, func(text []byte) error { return decode(text, into) })
}

// decode decodes a document that has no more values than memory could hold.
func decode(document []byte, into any) error {
	if checkValues(document) != nil {
		return limited("document-size", "", "a document has more than %d values", maxValues)
	}
	return json.Unmarshal(document, into, asSent)
}
