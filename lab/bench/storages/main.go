// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command storages measures API services built with the SDK, one for each storage: the size of the program, how soon it is ready, its
// memory, and requests and watches behind Tripod.
//
//	go run ./lab/bench/storages                                   # 8 minutes, after make build wardle notes
//	go run ./lab/bench/storages -rounds 1 -duration 1s            # a look
//	go run ./lab/bench/storages -docs docs/benchmarks-services.md # writes the page
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/test/framework"
)

func main() { framework.RunCommand("storages", run) }

type options struct {
	rounds   int
	duration time.Duration
	docs     string
	command  string
}

func run(ctx context.Context, args []string) (err error) {
	o := options{command: strings.Join(append([]string{"go run ./lab/bench/storages"}, args...), " ")}
	fs := flag.NewFlagSet("storages", flag.ContinueOnError)
	fs.IntVar(&o.rounds, "rounds", 3, "how often each storage is measured; figures are medians")
	fs.DurationVar(&o.duration, "duration", 5*time.Second, "how long each workload takes")
	fs.StringVar(&o.docs, "docs", "", "write this Markdown file")
	if err := framework.ParseFlags(fs, args); err != nil {
		return err
	}
	if o.rounds < 1 {
		return errors.New("-rounds must be 1 or more")
	}
	env, err := framework.New("bench-storages")
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, env.Close(err != nil)) }()
	sides, stop, err := sidesOf(env)
	if err != nil {
		return err
	}
	defer stop()
	r := &report{options: o, Began: time.Now()}
	for _, s := range sides {
		r.Sides = append(r.Sides, &measured{side: s})
	}
	for round := range o.rounds {
		for _, m := range r.Sides {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, m.name)
			if err := m.measure(ctx, env, o.duration); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	return r.write()
}

// side is a service with a storage.
type side struct {
	name, program string
	// path is that of its objects in the default namespace. version, kind and spec are those of an object.
	path, version, kind, spec string
	// args are flags of the service. They are for a new storage each time.
	args func() ([]string, error)
}

const service = "measured"

// sidesOf returns the services of the examples.
func sidesOf(env *framework.Environment) (sides []side, stop func(), err error) {
	root, err := os.MkdirTemp("", "storages-")
	if err != nil {
		return nil, nil, err
	}
	postgres, err := storetest.StartPostgres("fsync=on") // as etcd has it
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(root))
	}
	n := 0
	database := func(url func() (string, error)) func() ([]string, error) {
		return func() ([]string, error) {
			text, err := url()
			if err != nil {
				return nil, err
			}
			dir, err := os.MkdirTemp(root, "")
			if err != nil {
				return nil, err
			}
			file := filepath.Join(dir, "url")
			return []string{"--database-file=" + file}, os.WriteFile(file, []byte(text), 0o600)
		}
	}
	directory := func() ([]string, error) {
		dir, err := os.MkdirTemp(root, "")
		return []string{"--directory=" + dir}, err
	}
	notes := func(name, program string, args func() ([]string, error)) side {
		return side{
			name: name, program: env.Binary(program), args: args, path: "/apis/notes.example.com/v1/namespaces/default/notes",
			version: "notes.example.com/v1", kind: "Note", spec: `{"text":"Buy milk."}`,
		}
	}
	etcd := side{
		name: "etcd", program: env.Binary("wardle"), args: func() ([]string, error) { return nil, nil },
		path: "/apis/wardle.example.com/v1beta1/namespaces/default/flunders", version: "wardle.example.com/v1beta1", kind: "Flunder",
		spec: `{"referenceType":"Flunder","flunderReference":"other"}`,
	}
	return []side{
		etcd, notes("memory", "notes-memory", etcd.args), notes("files", "notes-files", directory),
		notes("SQLite", "notes-sql", database(func() (string, error) {
			dir, err := os.MkdirTemp(root, "")
			return "sqlite:" + filepath.Join(dir, "notes.db"), err
		})),
		notes("PostgreSQL", "notes-sql", database(func() (string, error) {
			n++
			name := fmt.Sprint("round", n)
			_, err := postgres.Admin.Exec("CREATE DATABASE " + name)
			return postgres.URL(name), err
		})),
	}, func() { postgres.Stop(); _ = os.RemoveAll(root) }, nil // nothing reads it any more
}
