// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tripod-k8s/tripod/base/certs"
	"github.com/tripod-k8s/tripod/e2e/release"
)

// secretOfGuest is the Secret of a release with the certificate of its user of etcd.
const secretOfGuest = "etcd-of-another"

// shareEtcd gives a release a user in the etcd of another one, with the name of the release, and returns the values with which it uses that.
func shareEtcd(ctx context.Context, owner, guest *release.Release, values release.Values) (release.Values, error) {
	prefix := "/" + guest.Name
	if err := confine(ctx, owner, guest.Name, prefix+"/"); err != nil {
		return nil, err
	}
	if err := introduce(ctx, owner, guest); err != nil {
		return nil, err
	}
	values = maps.Clone(values)
	etcd := maps.Clone(values["etcd"].(release.Values))
	etcd["enabled"], etcd["prefix"] = false, prefix
	host := fmt.Sprintf("%[1]s-etcd-0.%[1]s-etcd.%[2]s.svc", owner.Name, owner.Namespace)
	etcd["external"] = release.Values{"servers": []string{"https://" + host + ":2379"}, "secret": secretOfGuest}
	values["etcd"] = etcd
	for _, service := range release.Services {
		// Only root may compact the etcd, which does so itself, and ask for the size of its database.
		settings := maps.Clone(values[service].(release.Values))
		settings["extraArgs"] = []string{"--etcd-compaction-interval=0", "--etcd-db-metric-poll-interval=0"}
		values[service] = settings
	}
	return values, nil
}

// confine makes the user, who may read and write the keys below a prefix.
func confine(ctx context.Context, owner *release.Release, user, prefix string) error {
	client, stop, err := etcdOf(ctx, owner)
	if err != nil {
		return err
	}
	defer stop()
	if _, err := client.RoleAdd(ctx, user); err != nil {
		return err
	}
	permission := clientv3.PermissionType(clientv3.PermReadWrite)
	if _, err := client.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), permission); err != nil {
		return err
	}
	if _, err := client.UserAddWithOptions(ctx, user, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
		return err
	}
	_, err = client.UserGrantRole(ctx, user, user)
	return err
}

// etcdOf returns a client of the etcd of a release, with the user root.
func etcdOf(ctx context.Context, owner *release.Release) (client *clientv3.Client, stop func(), err error) {
	secret, err := owner.Host.Client.CoreV1().Secrets(owner.Namespace).Get(ctx, owner.Name+"-etcd-client", metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return nil, nil, errors.New("its Secret has no authority")
	}
	address, forwarded, err := owner.Forward(ctx, owner.Name+"-etcd-0", 2379)
	if err != nil {
		return nil, nil, err
	}
	client, err = clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + address},
		TLS:       &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		forwarded()
		return nil, nil, err
	}
	return client, func() {
		_ = client.Close() // nothing is pending
		forwarded()
	}, nil
}

// introduce makes the certificate of the user with the authority of the etcd, and the Secret with it in the namespace of the guest.
func introduce(ctx context.Context, owner, guest *release.Release) error {
	core := owner.Host.Client.CoreV1()
	authority, err := core.Secrets(owner.Namespace).Get(ctx, owner.Name+"-etcd-ca", metav1.GetOptions{})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tripod-releases-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the operating system does it later
	for key, file := range map[string]string{corev1.TLSCertKey: "ca.crt", corev1.TLSPrivateKeyKey: "ca.key"} {
		if err := os.WriteFile(filepath.Join(dir, file), authority.Data[key], 0o600); err != nil {
			return err
		}
	}
	store, err := certs.Open(dir)
	if err != nil {
		return err
	}
	ca, err := store.Authority("ca", "")
	if err != nil {
		return err
	}
	if _, err := ca.Ensure("user", certs.Leaf{CommonName: guest.Name, Client: true}); err != nil {
		return err
	}
	data := map[string][]byte{"ca.crt": authority.Data[corev1.TLSCertKey]}
	for key, file := range map[string]string{corev1.TLSCertKey: store.CertFile("user"), corev1.TLSPrivateKeyKey: store.KeyFile("user")} {
		if data[key], err = os.ReadFile(file); err != nil {
			return err
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: guest.Namespace}}
	if _, err := core.Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = core.Secrets(guest.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretOfGuest}, Type: corev1.SecretTypeTLS, Data: data,
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return admit(ctx, owner, guest)
}

// admit lets the pods of the guest connect to the etcd. The NetworkPolicies of the chart allow only those of the owner.
func admit(ctx context.Context, owner, guest *release.Release) error {
	port := intstr.FromInt32(2379)
	from := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: guest.Namespace}}
	_, err := owner.Host.Client.NetworkingV1().NetworkPolicies(owner.Namespace).Create(ctx, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: guest.Name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/component": release.Etcd}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
				From:  []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &from}},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}
