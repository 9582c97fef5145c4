// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command files is an API service that keeps its objects in YAML files.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/apiservice/storages"
	"github.com/tripod-k8s/tripod/apiservice/storages/files"
	"github.com/tripod-k8s/tripod/examples/storages/openapi"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
)

func main() { os.Exit(apiservice.Main(service())) }

func service() apiservice.Service {
	var directory string
	return apiservice.Service{
		Name:        "notes",
		Description: "notes serves notes from YAML files.",
		AddToScheme: []func(*runtime.Scheme) error{v1.AddToScheme},
		Definitions: openapi.GetOpenAPIDefinitions,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&directory, "directory", directory, "Directory of the files. It must exist. Required.")
		},
		ValidateFlags: func() error {
			if directory == "" {
				return errors.New("--directory is required")
			}
			return nil
		},
		Groups: []apiservice.Group{{
			Name:     v1.GroupVersion.Group,
			Versions: []string{v1.GroupVersion.Version},
			Resources: []apiservice.Resource{apiservice.Objects[*v1.Note]{
				Name: "notes",
				Storage: func(r storages.Resource) (storage.Interface, func(), error) { // the flag has its value now
					return files.Options{Directory: directory}.Open(r)
				},
				Validate: validate,
				Columns:  []apiservice.Column[*v1.Note]{{Name: "Text", Value: func(n *v1.Note) any { return n.Spec.Text }}},
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
