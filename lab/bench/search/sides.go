// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientrest "k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/lab/bench/load"
	"github.com/tripod-k8s/tripod/lab/bench/process"
	"github.com/tripod-k8s/tripod/test/framework"
)

// The sides.
const (
	tripod       = "Tripod"
	clusterpedia = "Clusterpedia"
)

// side is one of the two, while it runs. One process copies, and another one answers.
type side struct {
	name string
	hub  *framework.Stock
	// clusters are the PediaClusters.
	clusters dynamic.ResourceInterface
	db       *sql.DB
	// counted and read are SQL: how many objects the database has, and what the annotation of a pod is, given its cluster, namespace and name.
	counted, read string

	copies, serves *framework.Process
	url            string
	client         *load.Client
}

// sidesOf are SQL of the sides.
var sidesOf = map[string][2]string{
	tripod: {"SELECT COUNT(*) FROM objects", `SELECT o.object #>> '{metadata,annotations,bench/at}' FROM objects o
JOIN clusters c ON c.id = o.cluster_id JOIN kinds k ON k.id = o.kind_id WHERE k.resource = 'pods' AND c.name = $1 AND o.namespace = $2 AND o.name = $3`},
	clusterpedia: {"SELECT COUNT(*) FROM resources", `SELECT object #>> '{metadata,annotations,bench/at}' FROM resources
WHERE "group" = '' AND version = 'v1' AND resource = 'pods' AND cluster = $1 AND namespace = $2 AND name = $3`},
}

// start starts a side on a database.
func (b *benchmark) start(ctx context.Context, name, database string, db *sql.DB) (s *side, err error) {
	s = &side{name: name, db: db, counted: sidesOf[name][0], read: sidesOf[name][1]}
	var client dynamic.Interface
	if s.hub, client, err = b.hub(ctx); err != nil {
		return nil, err
	}
	s.clusters = client.Resource(schema.GroupVersionResource{Group: "cluster.clusterpedia.io", Version: "v1alpha2", Resource: "pediaclusters"})
	copies, serves, err := b.commands(s, database)
	if err != nil {
		return nil, err
	}
	if s.copies, err = b.environment.Start(copies); err != nil {
		return nil, err
	}
	// Both have one process create the tables.
	if err := s.await(ctx, s.copies, "the tables are made", func() error { _, err := s.objects(ctx); return err }); err != nil {
		return nil, err
	}
	if s.serves, err = b.environment.Start(serves); err != nil {
		return nil, err
	}
	ready, err := clientrest.HTTPClientFor(&clientrest.Config{TLSClientConfig: clientrest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, s.serves, "it is ready", func() error { return isReady(ready, s.url+"/readyz") }); err != nil {
		return nil, err
	}
	config := s.hub.Admin()
	config.Host, config.CAFile, config.Insecure = s.url, "", true
	s.client, err = load.NewClient(config, 4)
	return s, err
}

// await waits for a condition of a process.
func (s *side) await(ctx context.Context, p *framework.Process, what string, condition func() error) error {
	return until(ctx, s.name+": "+what, 2*time.Minute, func() (bool, error) {
		select {
		case <-p.Done():
			return false, fmt.Errorf("the process has ended, see %s", p.Log)
		default:
		}
		err := condition()
		return err == nil, err
	})
}

func isReady(client *http.Client, url string) error {
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusInternalServerError {
		return errors.New(answer.Status)
	}
	return nil
}

// commands returns what copies and what serves.
func (b *benchmark) commands(s *side, database string) (copies, serves framework.Command, err error) {
	port, err1 := framework.FreePort()
	other, err2 := framework.FreePort()
	if err := errors.Join(err1, err2); err != nil {
		return copies, serves, err
	}
	s.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	kubeconfig := s.hub.Kubeconfig
	dir := filepath.Join(b.environment.Dir, "certs-"+database)
	served := []string{
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + dir,
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}
	if s.name == clusterpedia {
		location, err := url.Parse(b.postgres.URL(database))
		if err != nil {
			return copies, serves, err
		}
		config, err := b.write("storage-"+database+".yaml", fmt.Sprintf("type: postgres\ndsn: host=127.0.0.1 port=%s user=%s dbname=%s sslmode=disable", location.Port(), location.User.Username(), database))
		if err != nil {
			return copies, serves, err
		}
		return framework.Command{Name: "clustersynchro-manager", Path: filepath.Join(b.clusterpedia, "clustersynchro-manager"), Args: []string{
				"--kubeconfig=" + kubeconfig, "--storage-config=" + config, "--leader-elect=false", "--metrics-host=127.0.0.1", fmt.Sprintf("--metrics-port=%d", other),
			}},
			framework.Command{Name: "clusterpedia-apiserver", Path: filepath.Join(b.clusterpedia, "apiserver"), Args: append(served, "--storage-config="+config)}, nil
	}
	command := func(name, role string, port int, dir string) framework.Command {
		args := append([]string{"--roles=" + role, "--hub-cluster=", "--member-allow=loopback,http", "--database=" + b.postgres.URL(database)}, served...)
		args = append(args, fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+dir)
		return framework.Command{Name: name, Path: b.environment.Binary("tripod-search"), Args: args}
	}
	return command("search-sync", "sync", other, dir+"-sync"), command("search-serve", "serve", port, dir), nil
}

// objects returns how many objects the database has.
func (s *side) objects(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, s.counted).Scan(&n)
	return n, err
}

// copied are the resources that a side copies.
var copied = []any{
	map[string]any{"group": "apps", "resources": []any{"deployments", "replicasets"}},
	map[string]any{"group": "", "resources": []any{"pods", "services", "configmaps"}},
}

// add has a side copy a cluster.
func (s *side) add(ctx context.Context, name string, kubeconfig []byte) error {
	_, err := s.clusters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.clusterpedia.io/v1alpha2", "kind": "PediaCluster", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(kubeconfig), "syncResources": copied},
	}}, metav1.CreateOptions{})
	return err
}

// stop ends a side.
func (s *side) stop() error {
	s.client.Close()
	return errors.Join(s.serves.Stop(), s.copies.Stop(), s.hub.Process.Stop(), s.hub.Etcd.Stop(), s.db.Close())
}

func (s *side) copier() process.Process {
	return process.Process{Service: "copies", PID: s.copies.PID()}
}
func (s *side) server() process.Process {
	return process.Process{Service: "serves", PID: s.serves.PID()}
}
