// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/base/certs/kubeconfig"
)

// Labels of the chart.
const (
	labelRelease = "app.kubernetes.io/instance"
	aggregators  = "app.kubernetes.io/part-of=tripod,app.kubernetes.io/component=aggregator"
)

// Release is an installed release of the chart.
type Release struct {
	Name, Namespace string
	// fullname begins the names of its objects.
	fullname string
}

// Find returns a release. If it is missing, the error names the releases of Tripod in the namespace. If two Deployments say that they are
// its aggregator, one may be a stranger's, with a server and a kubeconfig of its own, so Find takes neither.
func Find(ctx context.Context, client kubernetes.Interface, namespace, name string) (*Release, error) {
	releases, err := list(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	var found []Release
	for _, r := range releases {
		if r.Name == name {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
	case 1:
		return &found[0], nil
	default:
		return nil, fmt.Errorf("the namespace %s has %d aggregators of the release %s, the Deployments %s-aggregator and %s-aggregator: "+
			"delete the one that is not from Helm", namespace, len(found), name, found[0].fullname, found[1].fullname)
	}
	others := "the namespace has no release of Tripod"
	if len(releases) > 0 {
		others = "the namespace has " + strings.Join(names(releases), ", ")
	}
	return nil, fmt.Errorf("found no release %s of Tripod in the namespace %s: %s", name, namespace, others)
}

// Names returns the sorted names of the releases of Tripod in a namespace.
func Names(ctx context.Context, client kubernetes.Interface, namespace string) ([]string, error) {
	releases, err := list(ctx, client, namespace)
	return names(releases), err
}

func names(releases []Release) []string {
	var all []string
	for _, r := range releases {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	return all
}

func list(ctx context.Context, client kubernetes.Interface, namespace string) ([]Release, error) {
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: aggregators})
	if err != nil {
		return nil, fmt.Errorf("cannot look for releases: %w", err)
	}
	var releases []Release
	for _, d := range deployments.Items {
		if fullname, ok := strings.CutSuffix(d.Name, "-aggregator"); ok && d.Labels[labelRelease] != "" {
			releases = append(releases, releaseOf(&d, fullname))
		}
	}
	return releases, nil
}

func releaseOf(d *appsv1.Deployment, fullname string) Release {
	return Release{Name: d.Labels[labelRelease], Namespace: d.Namespace, fullname: fullname}
}

// selector returns the labels of the release's aggregators.
func (r *Release) selector() string { return aggregators + "," + labelRelease + "=" + r.Name }

// Credentials returns the administrator of the release, from the Secret that the chart makes, without a server. It takes only certificates,
// keys and tokens from there: a kubeconfig can also name programs to run, and files to send.
func (r *Release) Credentials(ctx context.Context, client kubernetes.Interface) (*kubeconfig.Entry, error) {
	name := r.fullname + "-kubeconfig"
	secret, err := client.CoreV1().Secrets(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the release %s has no Secret %s: its Job for certificates has not finished, or failed", r.Name, name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot get the kubeconfig of the release %s: %w", r.Name, err)
	}
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	if err != nil {
		return nil, fmt.Errorf("the Secret %s: %w", name, err)
	}
	entry, err := entryOf(config)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s %w", name, err)
	}
	entry.Name = fmt.Sprintf("tripod_%s_%s", r.Namespace, r.Name)
	return entry, nil
}

func entryOf(config *clientcmdapi.Config) (*kubeconfig.Entry, error) {
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil || config.AuthInfos[current.AuthInfo] == nil {
		return nil, errors.New("has no kubeconfig with a current context")
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if len(cluster.CertificateAuthorityData) == 0 {
		return nil, errors.New("has a kubeconfig without a certificate authority")
	}
	if user.Token == "" && (len(user.ClientCertificateData) == 0 || len(user.ClientKeyData) == 0) {
		return nil, errors.New("has a kubeconfig without a client certificate or a token in it")
	}
	return &kubeconfig.Entry{
		Cluster: &clientcmdapi.Cluster{CertificateAuthorityData: cluster.CertificateAuthorityData},
		User: &clientcmdapi.AuthInfo{
			ClientCertificateData: user.ClientCertificateData, ClientKeyData: user.ClientKeyData, Token: user.Token,
		},
	}, nil
}
