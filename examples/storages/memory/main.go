// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command memory is an API service that keeps its objects in memory.
package main

import (
	"context"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/apiservice/storages/memory"
	"github.com/tripod-k8s/tripod/examples/storages/openapi"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
)

func main() { os.Exit(apiservice.Main(service())) }

func service() apiservice.Service {
	return apiservice.Service{
		Name:        "notes",
		Description: "notes serves notes from memory.",
		AddToScheme: []func(*runtime.Scheme) error{v1.AddToScheme},
		Definitions: openapi.GetOpenAPIDefinitions,
		Groups: []apiservice.Group{{
			Name:     v1.GroupVersion.Group,
			Versions: []string{v1.GroupVersion.Version},
			Resources: []apiservice.Resource{apiservice.Objects[*v1.Note]{
				Name:     "notes",
				Storage:  memory.Options{MaxBytes: 16 << 20}.Open,
				Validate: validate,
				Warnings: warn,
				SelectableFields: map[string]func(*v1.Note) string{
					"spec.text": func(n *v1.Note) string { return n.Spec.Text },
				},
				Columns: []apiservice.Column[*v1.Note]{{Name: "Text", Value: func(n *v1.Note) any { return n.Spec.Text }}},
			}},
		}},
	}
}

func validate(_ context.Context, n *v1.Note) field.ErrorList {
	if text := n.Spec.Text; text == "" || len(text) > 100 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "text"), text, "must have 1 to 100 characters")}
	}
	return nil
}

// warn returns warnings of what is allowed and yet hardly meant.
func warn(_ context.Context, n, _ *v1.Note) []string {
	if n.Spec.Text != strings.TrimSpace(n.Spec.Text) {
		return []string{"spec.text: begins or ends with a space"}
	}
	return nil
}
