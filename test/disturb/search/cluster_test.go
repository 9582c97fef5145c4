// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/services/search/store"
	"github.com/tripod-k8s/tripod/services/search/store/storetest"
	"github.com/tripod-k8s/tripod/services/search/store/streams"
	"github.com/tripod-k8s/tripod/test/framework"
)

// The clusters. Search is part of the hub. The API server of the steady one never fails.
const (
	hub    = "hub"
	steady = "steady"
	shaken = "shaken"
)

// replicas are those of search.
var replicas = []string{"search-0", "search-1"}

// scene is all that runs.
type scene struct {
	*framework.Fleet
	began    time.Time
	members  map[string]*member
	database *storetest.Server
	// db and store reach the database while the network fails.
	db    *sql.DB
	store *store.Store
	// networks are those between search and others.
	networks map[string]*framework.Gateway

	// counts are faults by group.
	counts map[string]int
	behind []time.Duration
	past   []snapshot
}

// member is a cluster that is copied.
type member struct {
	name     string
	client   dynamic.Interface
	auditLog string
	// server is nil for the hub. flags are those with which it starts again.
	server *framework.Stock
	flags  []string
	// killed counts how often the API server was killed. lists are those of the first copy.
	killed int
	lists  []string
}

// copier is the user as whom search reads members.
const copier = "copier"

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
"rules": [{"level": "Metadata", "users": ["copier"], "verbs": ["list", "watch"]}, {"level": "None"}]}`

// copied are the resources of the clusters that PediaClusters name, those of RBAC included, which memberRBAC needs.
var copied = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "namespaces"}, {Version: "v1", Resource: "podtemplates"}, streams.InvolvedEvents.GroupVersionResource,
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "replicasets"}, {Group: "example.com", Version: "v1", Resource: "boats"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

const boats = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  names: {kind: Boat, plural: boats, singular: boat}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// start starts everything. The database is PostgreSQL, or MariaDB for LOSS_DATABASE=mariadb.
func start(t *testing.T) *scene {
	t.Helper()
	env := framework.ForTest(t)
	s := &scene{began: time.Now(), members: map[string]*member{}, networks: map[string]*framework.Gateway{}, counts: map[string]int{}}
	policy := filepath.Join(env.Dir, "audit-policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	s.startDatabase(t)
	options := framework.FleetOptions{Replicas: []framework.ReplicaOptions{
		{Name: "core-0", Args: []string{"--disable-admission-plugins=ServiceAccount"}}, {Name: "extensions-0"}, {Name: "aggregator-0"},
	}}
	for _, name := range replicas {
		options.Replicas = append(options.Replicas, framework.ReplicaOptions{
			Name: name, Binary: env.Binary("tripod-search"), Args: []string{"--database=" + s.databaseThrough(t, s.networks[name]), "--history-ttl=5m", "--member-allow=loopback"},
		})
	}
	var starting errgroup.Group
	starting.Go(func() (err error) {
		s.Fleet, err = env.StartFleet(t.Context(), options)
		return err
	})
	for _, m := range []*member{{name: steady}, {name: shaken}} {
		s.members[m.name] = m
		m.auditLog = filepath.Join(env.Dir, "audit-"+m.name+".log")
		m.flags = []string{"--audit-policy-file=" + policy, "--audit-log-path=" + m.auditLog}
		starting.Go(func() (err error) {
			m.server, err = env.StartStock(t.Context(), framework.StockOptions{Args: m.flags, DropIn: m.name == shaken})
			return err
		})
	}
	require.NoError(t, starting.Wait())
	t.Cleanup(s.kill)
	s.members[hub] = &member{name: hub}
	for name, m := range s.members {
		cluster := s.Cluster
		if m.server != nil {
			cluster = m.server.Cluster
		}
		config := cluster.Admin()
		config.Timeout, config.WarningHandler = 30*time.Second, rest.NoWarnings{}
		m.client = dynamic.NewForConfigOrDie(config)
		require.NoError(t, cluster.Create(t.Context(), boats))
		if m.server != nil {
			s.networks[name] = framework.NewGateway(t, cluster.URL)
			s.join(t, m)
		}
	}
	return s
}

// kill ends what would take its time to stop.
func (s *scene) kill() {
	for _, name := range replicas {
		s.Replica(name).Process().Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended
	}
	for _, name := range []string{steady, shaken} {
		s.members[name].server.Process.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended
	}
}

// databaseName is the name of the database of search.
const databaseName = "search"

func (s *scene) startDatabase(t *testing.T) {
	t.Helper()
	var err error
	if kind := os.Getenv("LOSS_DATABASE"); kind == "mariadb" {
		storetest.Need(t, kind)
		s.database, err = storetest.StartMariaDB("--innodb-flush-log-at-trx-commit=2")
	} else {
		storetest.Need(t, "postgres")
		s.database, err = storetest.StartPostgres()
	}
	require.NoError(t, err)
	t.Cleanup(func() { s.database.Stop() })
	_, err = s.database.Admin.Exec("CREATE DATABASE " + databaseName)
	require.NoError(t, err)
	s.db, err = s.database.Open(databaseName)
	require.NoError(t, err)
	t.Cleanup(func() { s.db.Close() })
	s.store, err = store.Open(s.database.URL(databaseName))
	require.NoError(t, err)
	t.Cleanup(func() { s.store.Close() })
	target, err := url.Parse(s.database.URL(databaseName))
	require.NoError(t, err)
	if socket := target.Query().Get("socket"); socket != "" {
		target = &url.URL{Scheme: "unix", Path: socket}
	}
	for _, name := range replicas {
		s.networks[name] = framework.NewGateway(t, target.String())
	}
}

func (s *scene) isPostgres() bool { return strings.HasPrefix(s.database.URL(databaseName), "postgres") }

// databaseThrough returns the URL of the database at a gateway.
func (s *scene) databaseThrough(t *testing.T, gateway *framework.Gateway) string {
	t.Helper()
	at, err := url.Parse(s.database.URL(databaseName))
	require.NoError(t, err)
	at.Host = gateway.Address()
	query := at.Query()
	query.Del("socket")
	at.RawQuery = query.Encode()
	return at.String()
}

// join has search copy a member through its gateway.
func (s *scene) join(t *testing.T, m *member) {
	t.Helper()
	config, err := m.server.UserConfig(copier, "system:masters")
	require.NoError(t, err)
	config.Host = "https://" + s.networks[m.name].Address()
	text, err := framework.PortableKubeconfig(config)
	require.NoError(t, err)
	clusters := dynamic.NewForConfigOrDie(s.Admin()).Resource(schema.GroupVersionResource{Group: "cluster.clusterpedia.io", Version: "v1alpha2", Resource: "pediaclusters"})
	framework.Eventually(t, "search takes the cluster "+m.name, func(ctx context.Context) error {
		_, err := clusters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.clusterpedia.io/v1alpha2", "kind": "PediaCluster", "metadata": map[string]any{"name": m.name},
			"spec": map[string]any{
				"kubeconfig": base64.StdEncoding.EncodeToString(text), "memberRBAC": map[string]any{},
				"syncResources": []any{
					map[string]any{"group": "", "resources": []any{"configmaps", "namespaces", "podtemplates"}, "eventsInvolvedResources": []any{"configmaps"}},
					map[string]any{"group": "apps", "resources": []any{"deployments", "replicasets"}},
					map[string]any{"group": "example.com", "resources": []any{"boats"}},
				},
			},
		}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return err
	})
}

func markOf(n int) string { return fmt.Sprint("mark-", n) }

// mark writes something that search is to have.
func (m *member) mark(ctx context.Context, n int) error {
	_, err := m.client.Resource(copied[0]).Namespace("default").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": markOf(n)},
	}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return err
}

// replicasRun returns an error if a replica of search has ended by itself.
func (s *scene) replicasRun() error {
	for _, name := range replicas {
		select {
		case <-s.Replica(name).Process().Done():
			return errors.New(name + " has ended by itself")
		default:
		}
	}
	return nil
}

// listsOf returns when and how search has listed resources of a member: by pages, of which the first counts, or at the beginning of a watch. Its checks, and
// what it reads of a CustomResourceDefinition, are about one object. It also lists the metadata of these definitions now and then, to see which have changed.
func listsOf(log string) (lists []string, err error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue // the server was killed while it wrote the line
		}
		at, err := url.Parse(event.RequestURI)
		if err != nil {
			return nil, err
		}
		query := at.Query()
		streamed := event.Verb == "watch" && query.Get("sendInitialEvents") == "true" && event.Stage == auditv1.Stage(audit.StageResponseStarted)
		definitions := event.ObjectRef != nil && event.ObjectRef.Resource == "customresourcedefinitions"
		paged := event.Verb == "list" && !definitions && query.Get("limit") != "1" && query.Get("continue") == "" && query.Get("fieldSelector") == ""
		if (streamed || paged) && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusOK {
			lists = append(lists, fmt.Sprint(event.RequestReceivedTimestamp.UTC().Format(time.TimeOnly), " ", event.RequestURI))
		}
	}
	return lists, lines.Err()
}
