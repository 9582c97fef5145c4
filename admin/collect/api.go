// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	services "github.com/tripod-k8s/tripod/services/list"
)

const (
	// requestTimeout is how long a replica may take for an answer.
	requestTimeout = 15 * time.Second
	// maxSecrets bounds the Secrets that the scrubber knows.
	maxSecrets = 20_000
	// maxReplicas bounds the replicas that are asked, of all services.
	maxReplicas = 60
)

// API is the API of an instance, as its administrator sees it.
type API struct {
	Config *rest.Config
	// Folder is the folder in the archive.
	Folder string
}

// ofService are what each replica answers, by the name of the file.
var ofService = []struct {
	file, path string
	binary     bool
}{
	{"metrics.txt", "/metrics", false},
	{"statusz.txt", "/statusz", false},
	{"flagz.txt", "/flagz", false},
	{"goroutines.txt", "/debug/pprof/goroutine?debug=2", false},
	{"heap.pprof", "/debug/pprof/heap", true},
}

// ofInstance are what the instance answers as a whole.
var ofInstance = []struct{ file, path string }{
	{"version.json", "/version"},
	{"readyz.txt", "/readyz?verbose"},
	{"livez.txt", "/livez?verbose"},
	{"apiservices.json", "/apis/apiregistration.k8s.io/v1/apiservices?limit=2000"},
}

// Secrets lets the scrubber know all Secrets that the administrator may read.
func (s *API) Secrets(ctx context.Context, a *Archive) {
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		a.Problem("%v", err)
		return
	}
	know(ctx, a, client, metav1.NamespaceAll, "of the API")
}

// know lets the scrubber know the Secrets of a namespace.
func know(ctx context.Context, a *Archive, client kubernetes.Interface, namespace, where string) {
	a.Progress("reading which Secrets " + where + " must not be in the archive")
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	n := 0
	all := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Secrets(namespace).List(ctx, o)
	}))
	all.PageSize = 500
	err := all.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if n++; n > maxSecrets {
			return fmt.Errorf("there are more than %d", maxSecrets)
		}
		knowSecret(a, object.(*corev1.Secret))
		return nil
	})
	if err != nil {
		a.Problem("texts are searched for keys and tokens by their form only, because the Secrets %s cannot all be read: %v", where, err)
	}
}

// described are keys of Secrets whose values are no secrets, and words of any log.
var described = []string{"namespace", "ca.crt", "tls.crt", "description", "expiration", "auth-extra-groups", "token-id",
	"usage-bootstrap-authentication", "usage-bootstrap-signing"}

// typed are the types of Secrets with such keys.
var typed = []corev1.SecretType{corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken, corev1.SecretTypeTLS}

func knowSecret(a *Archive, secret *corev1.Secret) {
	if secret.Type == helmSecret {
		return // its values are taken apart
	}
	for key, value := range secret.Data {
		if !slices.Contains(typed, secret.Type) || !slices.Contains(described, key) {
			a.Scrubber.Know(value)
		}
	}
}

// Collect asks the instance, and each replica.
func (s *API) Collect(ctx context.Context, a *Archive) {
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		a.Problem("%v", err)
		return
	}
	get := func(path string) ([]byte, bool, error) { return s.get(ctx, client, path) }
	for _, q := range ofInstance {
		if data, truncated, err := get(q.path); err != nil {
			a.Problem("%s: %v", q.path, err)
			if ctx.Err() != nil || !answered(err) {
				return // no other question would get an answer
			}
		} else {
			a.Text(s.Folder+"/"+q.file, data, truncated)
		}
	}
	own, _, err := get("/metrics")
	if err != nil {
		a.Problem("/metrics: %v", err)
		return
	}
	s.replica(ctx, a, client, services.Aggregator, "", "")
	for _, r := range replicasIn(own) {
		query := url.Values{"service": {r.backend}, "replica": {r.endpoint}}.Encode()
		s.replica(ctx, a, client, r.backend, r.endpoint, query)
	}
}

// replica asks one replica.
func (s *API) replica(ctx context.Context, a *Archive, client *http.Client, service, endpoint, query string) {
	folder := s.Folder + "/" + fileName(service)
	if endpoint != "" {
		folder += "-" + fileName(endpoint)
	}
	a.Progress(strings.TrimSpace("asking " + service + " " + endpoint))
	for _, q := range ofService {
		path := q.path
		if query != "" {
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			path += separator + query
		}
		switch data, truncated, err := s.get(ctx, client, path); {
		case err != nil:
			a.Problem("%s: %v", path, err)
			if ctx.Err() != nil || !answered(err) {
				return
			}
		case q.binary && truncated:
			a.Problem("%s is larger than %d MiB", path, maxFileBytes>>20)
		case q.binary:
			a.Binary(folder+"/"+q.file, data)
		default:
			a.Text(folder+"/"+q.file, data, truncated)
		}
	}
}

// statusError is an answer with another status than 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.text) }

func answered(err error) bool {
	_, ok := err.(*statusError) //nolint:errorlint // get returns it as it is
	return ok
}

func (s *API) get(ctx context.Context, client *http.Client, path string) (data []byte, truncated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.Config.Host, "/")+path, nil)
	if err != nil {
		return nil, false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxFileBytes+1))
	if err != nil {
		return nil, false, err
	}
	// A health path that fails says why.
	if resp.StatusCode != http.StatusOK && !strings.Contains(path, "verbose") {
		return nil, false, &statusError{resp.StatusCode, string(data[:min(len(data), 200)])}
	}
	if len(data) > maxFileBytes {
		return data[:maxFileBytes], true, nil
	}
	return data, false, nil
}

// replica is one of a backend.
type replica struct{ backend, endpoint string }

var (
	series    = regexp.MustCompile(`(?m)^tripod_backend_[a-z_]+\{([^}]*)\}`)
	backendIs = regexp.MustCompile(`\bbackend="([^".]+)"`) // a name with a dot is of an aggregated API server
	replicaIs = regexp.MustCompile(`\bendpoint="([^"]+)"`)
)

// replicasIn returns the replicas that an aggregator knows, from its metrics.
func replicasIn(metrics []byte) []replica {
	var found []replica
	for _, match := range series.FindAllSubmatch(metrics, -1) {
		backend, endpoint := backendIs.FindSubmatch(match[1]), replicaIs.FindSubmatch(match[1])
		if backend == nil || endpoint == nil {
			continue
		}
		if r := (replica{string(backend[1]), string(endpoint[1])}); !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b replica) int {
		return cmp.Or(cmp.Compare(a.backend, b.backend), cmp.Compare(a.endpoint, b.endpoint))
	})
	return found[:min(len(found), maxReplicas)]
}
