// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command sql is an API service that keeps its objects in PostgreSQL or SQLite.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	"github.com/spf13/pflag"
	_ "modernc.org/sqlite" // SQLite

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/apiservice/storages"
	storagesql "github.com/tripod-k8s/tripod/apiservice/storages/sql"
	"github.com/tripod-k8s/tripod/examples/storages/openapi"
	v1 "github.com/tripod-k8s/tripod/examples/storages/v1"
)

// maxConnections bounds the connections of a replica. Each request asks the database, and PostgreSQL takes 100 connections by default.
const maxConnections = 20

func main() { os.Exit(apiservice.Main(service())) }

func service() apiservice.Service {
	var file string
	var db *sql.DB
	return apiservice.Service{
		Name:        "notes",
		Description: "notes serves notes from a database.",
		AddToScheme: []func(*runtime.Scheme) error{v1.AddToScheme},
		Definitions: openapi.GetOpenAPIDefinitions,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&file, "database-file", file, "File with the URL of the database, postgres://... or sqlite:PATH. Required.")
		},
		ValidateFlags: func() error {
			if file == "" {
				return errors.New("--database-file is required")
			}
			return nil
		},
		Prepare: func(context.Context, *apiservice.Environment) (err error) {
			if db, err = open(file); err == nil {
				db.SetMaxOpenConns(maxConnections)
				db.SetMaxIdleConns(maxConnections)
			}
			return err
		},
		Close: func() error {
			if db == nil {
				return nil
			}
			return db.Close()
		},
		ReadyChecks: []apiservice.ReadyCheck{{
			Name:  "database",
			Check: func(ctx context.Context, _ *apiservice.Environment) error { return db.PingContext(ctx) },
		}},
		Groups: []apiservice.Group{{
			Name:     v1.GroupVersion.Group,
			Versions: []string{v1.GroupVersion.Version},
			Resources: []apiservice.Resource{apiservice.Objects[*v1.Note]{
				Name: "notes",
				Storage: func(r storages.Resource) (storage.Interface, func(), error) { // Prepare has opened the database
					return storagesql.Options{DB: db}.Open(r)
				},
				Validate: validate,
				Columns:  []apiservice.Column[*v1.Note]{{Name: "Text", Value: func(n *v1.Note) any { return n.Spec.Text }}},
			}},
		}},
	}
}

// open opens the database of a URL in a file, so that no list of processes shows its password.
func open(file string) (*sql.DB, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--database-file: %w", err)
	}
	url := strings.TrimSpace(string(content))
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		// Several processes may write: each waits for the others.
		return sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	}
	if !strings.HasPrefix(url, "postgres://") {
		return nil, fmt.Errorf("%s has no URL that begins with postgres:// or sqlite:", file)
	}
	return sql.Open("pgx", url)
}

func validate(_ context.Context, n *v1.Note) field.ErrorList {
	if text := n.Spec.Text; text == "" || len(text) > 100 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "text"), text, "must have 1 to 100 characters")}
	}
	return nil
}
