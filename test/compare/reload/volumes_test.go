// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestCertificatesInVolumesOfSecretsRoll exchanges every authority and every certificate in files that are laid out as a kubelet lays out
// Secrets, where all files of a directory change at once by a symbolic link: first all services trust both authorities, then
// all have new certificates, then none trusts the first authorities any longer.
func TestCertificatesInVolumesOfSecretsRoll(t *testing.T) {
	r := newRoll(t)
	requests := startStream(t, r.fleet.URL, client(t, r.old("admin.crt"), r.old("admin.key"), false, r.old("ca.crt"), r.next["ca"].ca.File()))

	for name, next := range r.next {
		r.files[name+".crt"] = append(slices.Clone(r.files[name+".crt"]), read(t, next.ca.File())...)
	}
	r.volume.swap(t, r.files)
	r.eventuallyTrusted(t, "next-", true)
	framework.Eventually(t, "requests go on", requests.more())

	r.issueByNext(t)
	r.volume.swap(t, r.files)
	for name, authority := range map[string]string{"core-0": "service-ca", "extensions-0": "service-ca", "aggregator-0": "ca"} {
		framework.Eventually(t, name+" shows its new certificate", func(ctx context.Context) error {
			return shownBy(ctx, r.host(name), "next-"+authority)
		})
	}
	admin, key := r.next["ca"].issue(t, "admin", administrator)
	requests.client.Store(client(t, admin, key, false, r.next["ca"].ca.File()))
	framework.Eventually(t, "requests go on", requests.more())

	for name, next := range r.next {
		r.files[name+".crt"] = read(t, next.ca.File())
	}
	r.volume.swap(t, r.files)
	r.eventuallyTrusted(t, "next-", true)
	r.eventuallyTrusted(t, "", false)
	framework.Eventually(t, "requests go on", requests.more())
	requests.stop()

	r.onlyNewClientsOfEtcd(t, client(t, admin, key, false, r.next["ca"].ca.File()))
	// Before the etcd, which was started after them.
	for _, name := range []string{"aggregator-0", "extensions-0", "core-0"} {
		assert.NoError(t, r.fleet.Replica(name).Stop())
	}
}

// roll is Tripod with its certificates, and the etcd's, in volumes.
type roll struct {
	fleet *framework.Fleet
	// volume has files, old are copies of what was there first.
	volume volume
	files  map[string][]byte
	old    func(name string) string
	// next are the authorities that take the place of those of these names.
	next map[string]authority

	etcd *etcdWithCertificates
}

func newRoll(t *testing.T) *roll {
	t.Helper()
	env := framework.ForTest(t)
	etcd := startEtcd(t, env)
	certificates := []string{
		"--etcd-cafile=" + filepath.Join(string(etcd.clients), "ca.crt"),
		"--etcd-certfile=" + filepath.Join(string(etcd.clients), "tls.crt"), "--etcd-keyfile=" + filepath.Join(string(etcd.clients), "tls.key"),
	}
	var replicas []framework.ReplicaOptions
	for _, name := range []string{"core-0", "extensions-0", "aggregator-0"} {
		replicas = append(replicas, framework.ReplicaOptions{Name: name, Args: certificates, Later: true})
	}
	fleet, err := env.StartFleet(t.Context(), framework.FleetOptions{EtcdURL: etcd.url, Replicas: replicas})
	require.NoError(t, err)
	r := &roll{fleet: fleet, volume: volume(fleet.PKI), files: map[string][]byte{}, next: map[string]authority{}, etcd: etcd}
	for _, name := range []string{"ca", "front-proxy-ca", "service-ca"} {
		r.next[name] = newAuthority(t, "next-"+name)
	}
	dir := t.TempDir()
	r.old = func(name string) string { return filepath.Join(dir, name) }
	entries, err := os.ReadDir(fleet.PKI)
	require.NoError(t, err)
	for _, entry := range entries {
		path := filepath.Join(fleet.PKI, entry.Name())
		r.files[entry.Name()] = read(t, path)
		replace(t, r.old(entry.Name()), r.files[entry.Name()])
		require.NoError(t, os.Remove(path))
	}
	r.volume.swap(t, r.files)
	for _, replica := range replicas {
		require.NoError(t, fleet.Replica(replica.Name).Start())
	}
	for _, replica := range replicas {
		require.NoError(t, fleet.Replica(replica.Name).WaitReady(t.Context()))
	}
	return r
}

func (r *roll) host(replica string) string {
	return strings.TrimPrefix(r.fleet.Replica(replica).URL, "https://")
}

// issueByNext has the new authorities issue what the old ones have issued.
func (r *roll) issueByNext(t *testing.T) {
	t.Helper()
	leaves := map[string]map[string]certs.Leaf{
		"ca":             {"apiserver": serving, "admin": administrator},
		"front-proxy-ca": {"front-proxy-client": proxy},
		"service-ca":     {},
	}
	for _, name := range []string{"core", "extensions", "aggregator"} {
		leaves["service-ca"][name] = certs.Leaf{
			CommonName: "system:tripod:" + name, DNSNames: []string{"localhost", name + ".tripod-system.svc"},
			IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true,
		}
	}
	for authority, issued := range leaves {
		for name, leaf := range issued {
			cert, key := r.next[authority].issue(t, name, leaf)
			r.files[name+".crt"], r.files[name+".key"] = read(t, cert), read(t, key)
		}
	}
}

// eventuallyTrusted waits until every service announces to its clients that it trusts the authorities of these names with
// a prefix, or no longer.
func (r *roll) eventuallyTrusted(t *testing.T, prefix string, want bool) {
	t.Helper()
	for replica, names := range map[string][]string{
		"aggregator-0": {"ca", "front-proxy-ca"}, "core-0": {"service-ca"}, "extensions-0": {"service-ca"},
	} {
		for _, name := range names {
			subject := subjectOf(t, r.old(name+".crt"))
			if prefix != "" {
				subject = subjectOf(t, r.next[name].ca.File())
			}
			what := fmt.Sprintf("%s trusts %s%s: %t", replica, prefix, name, want)
			framework.Eventually(t, what, func(ctx context.Context) error {
				trusted, err := trustedBy(ctx, r.host(replica))
				if err == nil && slices.ContainsFunc(trusted, func(each []byte) bool { return bytes.Equal(each, subject) }) != want {
					err = fmt.Errorf("%d authorities are trusted", len(trusted))
				}
				return err
			})
		}
	}
}

func subjectOf(t *testing.T, file string) []byte {
	t.Helper()
	block, _ := pem.Decode(read(t, file))
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert.RawSubject
}

// trustedBy returns the names of the authorities that a server announces as trusted for clients.
func trustedBy(ctx context.Context, host string) (subjects [][]byte, err error) {
	dialer := tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true,
		GetClientCertificate: func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			subjects = asked.AcceptableCAs
			return &tls.Certificate{}, nil
		},
	}}
	connection, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return subjects, connection.Close()
}

// etcdWithCertificates is an etcd whose clients' certificates are in a volume.
type etcdWithCertificates struct {
	env            *framework.Environment
	url, dir       string
	first, second  authority
	clients        volume
	process        *framework.Process
	cert, key, cas string
}

// startEtcd starts an etcd that trusts clients of two authorities.
func startEtcd(t *testing.T, env *framework.Environment) *etcdWithCertificates {
	t.Helper()
	port, err := framework.FreePort()
	require.NoError(t, err)
	dir := t.TempDir()
	e := &etcdWithCertificates{env: env, url: fmt.Sprintf("https://127.0.0.1:%d", port), dir: dir, first: newAuthority(t, "first"),
		second: newAuthority(t, "second"), clients: volume(filepath.Join(dir, "clients")), cas: filepath.Join(dir, "clients.crt")}
	e.cert, e.key = e.first.issue(t, "etcd", certs.Leaf{CommonName: "etcd", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true})
	e.issue(t, e.first)
	e.start(t, read(t, e.first.ca.File(), e.second.ca.File()))
	return e
}

// issue gives the services a client certificate of an authority.
func (e *etcdWithCertificates) issue(t *testing.T, by authority) {
	t.Helper()
	cert, key := by.issue(t, "client", certs.Leaf{CommonName: "client", Client: true})
	e.clients.swap(t, map[string][]byte{"ca.crt": read(t, e.first.ca.File()), "tls.crt": read(t, cert), "tls.key": read(t, key)})
}

// start starts the etcd, which trusts clients of these authorities.
func (e *etcdWithCertificates) start(t *testing.T, trusted []byte) {
	t.Helper()
	replace(t, e.cas, trusted)
	var err error
	e.process, err = e.env.Start(framework.Command{
		Name: framework.UniqueName("etcd"), Path: e.env.Binary("tripod"), Dir: e.dir, Args: []string{
			"etcd", "run", "--data-dir=" + filepath.Join(e.dir, "data"), "--client-url=" + e.url,
			"--cert-file=" + e.cert, "--key-file=" + e.key, "--trusted-ca-file=" + e.cas,
		},
	})
	require.NoError(t, err)
}

// onlyNewClientsOfEtcd gives the services other client certificates for etcd, and has etcd come back without trust in the first ones.
func (r *roll) onlyNewClientsOfEtcd(t *testing.T, admin *http.Client) {
	t.Helper()
	r.etcd.issue(t, r.etcd.second)
	require.NoError(t, r.etcd.process.Stop())
	r.etcd.start(t, read(t, r.etcd.second.ca.File()))
	for _, path := range paths {
		framework.Eventually(t, path+" is answered", func(ctx context.Context) error {
			return answers(ctx, admin, r.fleet.URL+path, nil, http.StatusOK)
		})
	}
}

// volume is a directory with a Secret.
type volume string

// swap changes all files at once, as a kubelet does: their names lead to files of a directory that another one takes the place of.
func (v volume) swap(t *testing.T, files map[string][]byte) {
	t.Helper()
	data := filepath.Join(string(v), "..data")
	before, err := filepath.EvalSymlinks(data)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	require.NoError(t, os.MkdirAll(string(v), 0o700))
	now, err := os.MkdirTemp(string(v), "..version-")
	require.NoError(t, err)
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(now, name), content, 0o600))
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(string(v), name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	require.NoError(t, os.Symlink(filepath.Base(now), data+"-next"))
	require.NoError(t, os.Rename(data+"-next", data))
	if before != "" {
		require.NoError(t, os.RemoveAll(before))
	}
}
