// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory has objects of many kinds, and reads everything that an API server stores and shows. Tests compare what is there before and
// after another API server takes over the etcd.
package inventory

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Stored is the content of etcd, by key.
type Stored map[string]Entry

// Entry is the value of a key, and the revision of its last change.
type Entry struct {
	Value    []byte
	Revision int64
}

// ReadEtcd returns everything that API servers store, and the revision of etcd.
func ReadEtcd(ctx context.Context, etcd *clientv3.Client) (Stored, int64, error) {
	answer, err := etcd.Get(ctx, "/registry/", clientv3.WithPrefix())
	if err != nil {
		return nil, 0, err
	}
	all := Stored{}
	for _, kv := range answer.Kvs {
		all[string(kv.Key)] = Entry{kv.Value, kv.ModRevision}
	}
	return all, answer.Header.Revision, nil
}

// Restless matches the keys that any API server writes for itself when it starts, runs and stops, and those that begin with one of more, a
// regular expression.
func Restless(more string) *regexp.Regexp {
	const (
		identity  = `leases/kube-system/apiserver-|masterleases/|peerserverleases/|events/`
		addresses = `services/endpoints/default/kubernetes$|endpointslices/default/kubernetes`
	)
	return regexp.MustCompile(`^/registry/(` + identity + `|` + addresses + `|` + more + `)`)
}

// Differences describes each key that is removed, changed or new, except where expected returns true.
func (before Stored) Differences(after Stored, expected func(key string, was, is Entry) bool) []string {
	var found []string
	for key, was := range before {
		is, exists := after[key]
		switch {
		case exists && bytes.Equal(was.Value, is.Value), expected(key, was, is):
		case !exists:
			found = append(found, key+" is removed")
		default:
			found = append(found, fmt.Sprintf("%s is changed, from revision %d to %d:\n  %q\n  %q", key, was.Revision, is.Revision, was.Value, is.Value))
		}
	}
	for key, is := range after {
		if _, existed := before[key]; !existed && !expected(key, Entry{}, is) {
			found = append(found, key+" is new")
		}
	}
	slices.Sort(found)
	return found
}

// Shown has objects as an API server shows them, by resource, namespace and name.
type Shown map[string]unstructured.Unstructured

// ReadAPI lists all objects of those resources that clients can list and create.
func ReadAPI(ctx context.Context, config *rest.Config, groupVersions []*metav1.APIResourceList) (Shown, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := Shown{}
	for _, list := range groupVersions {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "create") {
				continue
			}
			gvr := version.WithResource(resource.Name)
			objects, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", gvr, err)
			}
			for _, object := range objects.Items {
				all[fmt.Sprintf("%s %s/%s", gvr, object.GetNamespace(), object.GetName())] = object
			}
		}
	}
	return all, nil
}
