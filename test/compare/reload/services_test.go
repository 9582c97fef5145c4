// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/test/framework"
)

// TestCertificatesOfServicesRoll changes the CA by which services know each other: first all trust both, then all
// get new certificates, then none trusts the first any longer.
func TestCertificatesOfServicesRoll(t *testing.T) {
	fleet := framework.NewFleet(t, framework.FleetOptions{})
	file := func(name string) string { return filepath.Join(fleet.PKI, name) }
	requests := startStream(t, fleet.URL, client(t, file("admin.crt"), file("admin.key"), false, file("ca.crt")))

	next := newAuthority(t, "next")
	replace(t, file("service-ca.crt"), append(read(t, file("service-ca.crt")), read(t, next.ca.File())...))
	framework.Eventually(t, "requests go on", requests.more())
	for _, name := range []string{"core", "extensions", "aggregator"} {
		cert, key := next.issue(t, name, certs.Leaf{
			CommonName: "system:tripod:" + name, DNSNames: []string{"localhost", name + ".tripod-system.svc"},
			IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true, Client: true,
		})
		replace(t, file(name+".key"), read(t, key))
		replace(t, file(name+".crt"), read(t, cert))
	}
	for _, name := range []string{"core-0", "extensions-0"} {
		host := strings.TrimPrefix(fleet.Replica(name).URL, "https://")
		framework.Eventually(t, name+" shows its new certificate", func(ctx context.Context) error { return shownBy(ctx, host, "next") })
	}
	framework.Eventually(t, "requests go on", requests.more())
	replace(t, file("service-ca.crt"), read(t, next.ca.File()))
	for range 5 {
		framework.Eventually(t, "requests go on", requests.more())
	}
	requests.stop()

	// A new process knows the others by what is there now.
	for _, name := range []string{"extensions-0", "core-0"} {
		replica := fleet.Replica(name)
		require.NoError(t, replica.Stop())
		require.NoError(t, replica.Start())
		require.NoError(t, replica.WaitReady(t.Context()))
	}
}

// more returns a condition that holds when some more requests were answered.
func (s *stream) more() func(context.Context) error {
	const some = 100
	before := s.answered.Load()
	return func(context.Context) error {
		if now := s.answered.Load(); now < before+some {
			return fmt.Errorf("%d requests were answered", now-before)
		}
		return nil
	}
}

// shownBy returns nil when a server shows a certificate of this issuer.
func shownBy(ctx context.Context, host, issuer string) error {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer connection.Close()
	if got := connection.(*tls.Conn).ConnectionState().PeerCertificates[0].Issuer.CommonName; got != issuer {
		return fmt.Errorf("the certificate is issued by %s", got)
	}
	return nil
}
