// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command readonly is an API service whose objects a function returns. They are the lines of a file, NAME=TEXT.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/examples/storages/openapi"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
)

func main() { os.Exit(apiservice.Main(service())) }

// maxFile bounds what is read of the file, in bytes.
const maxFile = 1 << 20

func service() apiservice.Service {
	var file string
	return apiservice.Service{
		Name:        "notes",
		Description: "notes serves the lines of a file.",
		AddToScheme: []func(*runtime.Scheme) error{v1.AddToScheme},
		Definitions: openapi.GetOpenAPIDefinitions,
		AddFlags:    func(fs *pflag.FlagSet) { fs.StringVar(&file, "file", file, "File with lines NAME=TEXT. Required.") },
		ValidateFlags: func() error {
			if file == "" {
				return errors.New("--file is required")
			}
			return nil
		},
		Groups: []apiservice.Group{{
			Name:     v1.GroupVersion.Group,
			Versions: []string{v1.GroupVersion.Version},
			Resources: []apiservice.Resource{apiservice.ReadOnly[*v1.Note]{
				Name:          "notes",
				ClusterScoped: true,
				List:          func(context.Context, string) ([]*v1.Note, error) { return read(file) },
				PollInterval:  time.Second,
				Columns:       []apiservice.Column[*v1.Note]{{Name: "Text", Value: func(n *v1.Note) any { return n.Spec.Text }}},
			}},
		}},
	}
}

func read(file string) ([]*v1.Note, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var notes []*v1.Note
	lines := bufio.NewScanner(io.LimitReader(f, maxFile))
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), "=")
		if !ok {
			return nil, fmt.Errorf("%s: %q is not NAME=TEXT", file, lines.Text())
		}
		notes = append(notes, &v1.Note{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NoteSpec{Text: text}})
	}
	return notes, lines.Err()
}
