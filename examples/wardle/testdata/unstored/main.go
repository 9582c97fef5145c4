// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command unstored is an API service without etcd. Its flunders are in a file, one name a line. Without the file, it is not ready.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/examples/wardle/openapi"
	"github.com/tripod-k8s/tripod/examples/wardle/v1beta1"
)

var version = schema.GroupVersion{Group: "unstored.example.com", Version: "v1"}

func main() {
	var file string
	os.Exit(apiservice.Main(apiservice.Service{
		Name:        "unstored",
		Description: "unstored serves flunders from a file.",
		AddToScheme: []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
			s.AddKnownTypes(version, &v1beta1.Flunder{}, &v1beta1.FlunderList{})
			metav1.AddToGroupVersion(s, version)
			return nil
		}},
		Definitions: openapi.GetOpenAPIDefinitions,
		AddFlags:    func(fs *pflag.FlagSet) { fs.StringVar(&file, "file", file, "File with the names.") },
		ReadyChecks: []apiservice.ReadyCheck{{Name: "file", Check: func(context.Context, *apiservice.Environment) error {
			_, err := os.Stat(file)
			return err
		}}},
		Groups: []apiservice.Group{{
			Name:     version.Group,
			Versions: []string{version.Version},
			Resources: []apiservice.Resource{apiservice.Custom{
				Name: "flunders", Example: &v1beta1.Flunder{},
				New: func(*apiservice.Environment) (rest.Storage, error) {
					resource := schema.GroupResource{Group: version.Group, Resource: "flunders"}
					return &flunders{rest.NewDefaultTableConvertor(resource), resource, file}, nil
				},
			}},
		}},
	}))
}

// flunders reads the file for each request.
type flunders struct {
	rest.TableConvertor
	resource schema.GroupResource
	file     string
}

var (
	_ rest.Getter               = &flunders{}
	_ rest.Lister               = &flunders{}
	_ rest.Scoper               = &flunders{}
	_ rest.SingularNameProvider = &flunders{}
)

func (f *flunders) New() runtime.Object     { return &v1beta1.Flunder{} }
func (f *flunders) NewList() runtime.Object { return &v1beta1.FlunderList{} }
func (f *flunders) Destroy()                {}
func (f *flunders) NamespaceScoped() bool   { return false }
func (f *flunders) GetSingularName() string { return "flunder" }

func (f *flunders) List(context.Context, *metainternal.ListOptions) (runtime.Object, error) {
	content, err := os.ReadFile(f.file)
	if err != nil {
		return nil, fmt.Errorf("read flunders: %w", err)
	}
	list := &v1beta1.FlunderList{}
	for name := range strings.FieldsSeq(string(content)) {
		list.Items = append(list.Items, v1beta1.Flunder{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return list, nil
}

func (f *flunders) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	list, err := f.List(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, flunder := range list.(*v1beta1.FlunderList).Items {
		if flunder.Name == name {
			return &flunder, nil
		}
	}
	return nil, apierrors.NewNotFound(f.resource, name)
}
