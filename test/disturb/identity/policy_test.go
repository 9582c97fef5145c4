// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/test/framework"
)

// faulty is between extensions and a replica of core, and can make that seem sick.
type faulty struct {
	listener net.Listener
	next     *httputil.ReverseProxy
	// status is the answer to everything but probes, if it is not 0, and ready whether probes find the replica ready.
	status  atomic.Int32
	unready atomic.Bool
	// ends ends all answers that go on.
	ends context.Context
	end  context.CancelFunc
	// silent is held while running watches send nothing.
	silent sync.RWMutex
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &faulty{listener: listener}
	f.ends, f.end = context.WithCancel(t.Context())
	return f
}

func (f *faulty) url() string { return "https://" + f.listener.Addr().String() }

// serve has the proxy be core-0 of a fleet for extensions.
func (f *faulty) serve(t *testing.T, fleet *framework.Fleet) {
	t.Helper()
	pair := func(service string) tls.Certificate {
		pair, err := tls.LoadX509KeyPair(filepath.Join(fleet.PKI, service+".crt"), filepath.Join(fleet.PKI, service+".key"))
		require.NoError(t, err)
		return pair
	}
	ca, err := os.ReadFile(filepath.Join(fleet.PKI, "service-ca.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	target, err := url.Parse(fleet.Replica("core-0").URL)
	require.NoError(t, err)
	f.next = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
			Certificates: []tls.Certificate{pair("extensions")}, RootCAs: roots, ServerName: trust.ServerName("core"), MinVersion: tls.VersionTLS13,
		}},
	}
	server := &http.Server{Handler: f, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair("core")}, MinVersion: tls.VersionTLS13}}
	go server.ServeTLS(f.listener, "", "") //nolint:errcheck // it ends with the test
	t.Cleanup(func() { server.Close() })
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	probe := strings.HasPrefix(req.URL.Path, "/readyz")
	switch status := int(f.status.Load()); {
	case probe && f.unready.Load():
		w.WriteHeader(http.StatusInternalServerError)
	case !probe && status != 0:
		w.WriteHeader(status)
	default:
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer context.AfterFunc(f.ends, cancel)()
		f.next.ServeHTTP(&silenced{w, f}, req.WithContext(ctx))
	}
}

// silenced writes while its proxy is not silent.
type silenced struct {
	http.ResponseWriter
	proxy *faulty
}

func (s *silenced) Write(p []byte) (int, error) {
	s.proxy.silent.RLock()
	defer s.proxy.silent.RUnlock()
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (s *silenced) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// The replicas of extensions follow core-0, each in its own way, until that is sick in one way for each. core-1 is well.
func TestExtensionsLeavesACoreThatIsSick(t *testing.T) {
	t.Parallel()
	ways := map[string]*faulty{"extensions-0": newFaulty(t), "extensions-1": newFaulty(t)}
	options := []framework.ReplicaOptions{{Name: "core-0"}, {Name: "core-1", Later: true}}
	for name, way := range ways {
		options = append(options, framework.ReplicaOptions{
			Name: name, Later: true, Cores: []string{"core-1"}, Args: []string{"--core-servers=" + way.url()},
		})
	}
	fleet := framework.NewFleet(t, framework.FleetOptions{Replicas: options})
	for name, way := range ways {
		way.serve(t, fleet)
		require.NoError(t, fleet.Replica(name).Start())
		require.NoError(t, fleet.Replica(name).WaitReady(t.Context()))
	}
	require.NoError(t, fleet.Replica("core-1").Start())
	require.NoError(t, fleet.Replica("core-1").WaitReady(t.Context()))

	master := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	bindings := clientOf(t, fleet, "core-1").RbacV1().ClusterRoleBindings()
	_, err := bindings.Create(t.Context(), master, metav1.CreateOptions{})
	require.NoError(t, err)
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for name := range ways {
		becomes(t, "jane at "+name, fleet.As(name, jane), definitions, http.StatusOK)
	}

	// One core answers with errors from now on, also to running watches.
	ways["extensions-0"].status.Store(http.StatusTooManyRequests)
	ways["extensions-0"].end()
	// The other has lost its etcd.
	ways["extensions-1"].silent.Lock()
	defer ways["extensions-1"].silent.Unlock()
	ways["extensions-1"].unready.Store(true)
	require.NoError(t, bindings.Delete(t.Context(), "jane", metav1.DeleteOptions{}))
	for name := range ways {
		becomes(t, "jane at "+name+", without rights,", fleet.As(name, jane), definitions, http.StatusForbidden)
	}
}
