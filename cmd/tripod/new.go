// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/tripod-k8s/tripod/admin/scaffold"
	"github.com/tripod-k8s/tripod/local/names"
)

func newNewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Write a program to begin with",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNewAPIServiceCommand(), newNewKindCommand(), newNewVersionCommand(), newNewClientCommand())
	return cmd
}

func newNewAPIServiceCommand() *cobra.Command {
	var service scaffold.APIService
	var directory string
	namespaced := true
	cmd := &cobra.Command{
		Use:   "api-service NAME --group GROUP --kind KIND",
		Short: "Write an API service of your own: a Go module that builds and runs",
		Long: `Write an API service of your own: a Go module with a kind, its validation, tests, and an image. It builds and runs as it is:

  tripod new api-service books --group library.example.com --kind Book
  cd books
  make
  tripod up --service books=bin/books`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			service.Name, service.ClusterScoped = args[0], !namespaced
			if err := names.ValidateService(service.Name); err != nil {
				return err
			}
			if service.Versions, err = scaffoldVersions(); err != nil {
				return err
			}
			if err := service.Complete(); err != nil {
				return err
			}
			directory = cmp.Or(directory, service.Name)
			if err := service.Write(directory); err != nil {
				return err
			}
			return sayHowToBegin(cmd.OutOrStdout(), service, directory)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&service.Group, "group", "", "API group, in a domain of yours, such as library.example.com")
	fs.StringVar(&service.Kind, "kind", "", "kind of the objects, in CamelCase, such as Book")
	fs.StringVar(&service.Version, "version", "v1alpha1", "version of the API group")
	fs.StringVar(&service.Plural, "plural", "", "name of the resource; the default is the plural of the kind, such as books")
	fs.BoolVar(&namespaced, "namespaced", true, "objects are in namespaces")
	fs.StringVar(&service.Module, "module", "", "path of the Go module; the default is GROUP/NAME")
	fs.StringVar(&directory, "directory", "", "folder for the module, which is new or empty; the default is NAME")
	for _, required := range []string{"group", "kind"} {
		if err := cmd.MarkFlagRequired(required); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

func newNewKindCommand() *cobra.Command {
	var kind scaffold.Kind
	directory, namespaced := ".", true
	cmd := &cobra.Command{
		Use:   "kind KIND",
		Short: "Add a kind to an API service",
		Long: `Add a kind to an API service that tripod new api-service has written: its types, its resource, validation and a test.
Run it in the folder of the service, and generate code then:

  tripod new kind Reader
  make generate
  make`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind.Kind, kind.ClusterScoped = args[0], !namespaced
			next, err := changeModule(directory, func(m *scaffold.Module) error { return m.AddKind(kind) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The service has the kind %s: change %s.go. Then:\n\n%s",
				kind.Kind, strings.ToLower(kind.Kind), next)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kind.Version, "version", "", "version that has the kind; required if the service has several")
	fs.StringVar(&kind.Plural, "plural", "", "name of the resource; the default is the plural of the kind, such as readers")
	fs.BoolVar(&namespaced, "namespaced", true, "objects are in namespaces")
	fs.StringVar(&directory, "directory", directory, "folder of the service")
	return cmd
}

func newNewVersionCommand() *cobra.Command {
	directory := "."
	cmd := &cobra.Command{
		Use:   "version VERSION",
		Short: "Add a version to an API service",
		Long: `Add a version to an API service that tripod new api-service has written: copies of the types, conversions, and a
test that these lose no field. Objects are stored in the version in which they were before.
Run it in the folder of the service, and generate code then:

  tripod new version v1beta1
  make generate
  make`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			next, err := changeModule(directory, func(m *scaffold.Module) error { return m.AddVersion(args[0]) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The service has the version %[1]s: change %[1]s/types.go, and the conversions in %[1]s.go. "+
				"Then:\n\n%[2]s", args[0], next)
			return err
		},
	}
	cmd.Flags().StringVar(&directory, "directory", directory, "folder of the service")
	return cmd
}

// changeModule changes the API service in a folder, or nothing of it. It returns the commands that follow.
func changeModule(folder string, change func(*scaffold.Module) error) (next string, err error) {
	module, err := scaffold.Open(folder)
	if err == nil {
		err = change(module)
	}
	if err != nil {
		return "", err
	}
	next = "  make generate\n"
	if module.HasClient() {
		next += "  tripod new client\n"
	}
	return next + "  make\n", module.Save()
}

func sayHowToBegin(out io.Writer, service scaffold.APIService, directory string) error {
	_, err := fmt.Fprintf(out, `The API service %[1]s is in %[2]s. To run it:

  cd %[2]s
  make
  tripod up --service %[1]s=bin/%[1]s
`, service.Name, directory)
	return err
}

// ourVersion is the version of Tripod's modules that the go.mod files of this repository require. A program that was
// built in its workspace does not know it.
const ourVersion = "v0.1.0"

// scaffoldVersions are the versions that this program was built with.
func scaffoldVersions() (scaffold.Versions, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return scaffold.Versions{}, errors.New("this program does not know what it was built from: build it with Go modules")
	}
	versions := map[string]string{}
	for _, module := range info.Deps {
		versions[module.Path] = module.Version
		if module.Replace != nil && semver.IsValid(module.Replace.Version) {
			versions[module.Path] = module.Replace.Version
		}
	}
	found := scaffold.Versions{
		APIService:  ourVersion,
		Kubernetes:  versions["k8s.io/apimachinery"],
		KubeOpenAPI: versions["k8s.io/kube-openapi"],
	}
	if found.Kubernetes == "" || found.KubeOpenAPI == "" {
		return found, fmt.Errorf("this program does not know what it was built from: %+v", found)
	}
	return found, nil
}
