// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pediaclusters

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
)

// permit is what a Secret says about its use.
type permit struct {
	part, namespace, name string
	// servers are those for which a PediaCluster may use the Secret. An empty one stands for the server in the Secret itself, if it has a
	// kubeconfig.
	servers map[string][]string
}

// permitOf reads the annotation of a Secret: NAME=SERVER or NAME, with commas or blanks in between.
func permitOf(secret *unstructured.Unstructured, part string) *permit {
	p := &permit{part: part, namespace: secret.GetNamespace(), name: secret.GetName(), servers: map[string][]string{}}
	between := func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }
	for _, entry := range strings.FieldsFunc(secret.GetAnnotations()[v1alpha2.SecretAnnotation], between) {
		cluster, server, _ := strings.Cut(entry, "=")
		p.servers[cluster] = append(p.servers[cluster], server)
	}
	return p
}

// check returns an error that says what to do if a cluster may not use the Secret for a server.
func (p *permit) check(cluster, server string) error {
	wanted, err := canonical(server)
	allowed := slices.ContainsFunc(p.servers[cluster], func(has string) bool {
		if has == "" {
			return p.part == "kubeconfig"
		}
		has, wrong := canonical(has)
		return err == nil && wrong == nil && has == wanted
	})
	if allowed {
		return nil
	}
	return fmt.Errorf("authenticationFrom.%s: %w", p.part, p.refusal(cluster, server))
}

// refusal says how the owner of the Secret lets a cluster use it.
func (p *permit) refusal(cluster, server string) error {
	entry := cluster
	if server != "" {
		entry += "=" + server
	}
	return fmt.Errorf("secret %[1]s/%[2]s does not let PediaCluster %[3]s use it for %[4]s: kubectl annotate secret --namespace %[1]s %[2]s "+
		"%[5]s=%[6]s",
		p.namespace, p.name, cluster, cmp.Or(server, "its server"), v1alpha2.SecretAnnotation, entry)
}

// canonical returns the one form of the URL of a server.
func canonical(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%q is not of the form https://host:port", server)
	}
	return "https://" + net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), "443")) + strings.TrimRight(u.EscapedPath(), "/"), nil
}
