// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/tripod-k8s/tripod/test/framework"
)

// stored is what etcd has, by key.
type stored map[string]entry

type entry struct {
	value    []byte
	revision int64
}

func openEtcd(t *testing.T, url string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // the test is over
	return client
}

func readEtcd(t *testing.T, client *clientv3.Client) stored {
	t.Helper()
	answer, err := client.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	require.NoError(t, err)
	all := stored{}
	for _, kv := range answer.Kvs {
		all[string(kv.Key)] = entry{kv.Value, kv.ModRevision}
	}
	return all
}

// restless are what every API server writes for itself when it starts, runs and stops.
var restless = regexp.MustCompile(`^/registry/(` +
	`leases/kube-system/apiserver-|masterleases/|peerserverleases/|events/|` + // who there is
	`services/endpoints/default/kubernetes$|endpointslices/default/kubernetes$|` + // and where
	`ranges/|` + // a repair that finds nothing to do writes all the same
	`apiregistration.k8s.io/apiservices/v1.metrics.example.com$` + // the condition of a server that does not exist says when it was found out
	`)`)

// differences returns what was changed, made and removed, but for what is restless.
func differences(before, after stored) []string {
	var found []string
	for key, was := range before {
		is, exists := after[key]
		switch {
		case restless.MatchString(key):
		case !exists:
			found = append(found, "removed "+key)
		case !bytes.Equal(was.value, is.value):
			found = append(found, fmt.Sprintf("changed %s:\n  %q\n  %q", key, was.value, is.value))
		}
	}
	for key := range after {
		if _, existed := before[key]; !existed && !restless.MatchString(key) {
			found = append(found, "made "+key)
		}
	}
	slices.Sort(found)
	return found
}

// shown is what an API shows: objects by resource, namespace and name, each as JSON.
type shown map[string]string

// readAPI lists everything in every version.
func readAPI(t *testing.T, cluster *framework.Cluster) shown {
	t.Helper()
	all := shown{}
	framework.Eventually(t, cluster.Name+" shows everything", func(ctx context.Context) error {
		clear(all)
		return list(ctx, cluster, all)
	})
	return all
}

func list(ctx context.Context, cluster *framework.Cluster, into shown) error {
	names, err := discovery.NewDiscoveryClientForConfig(cluster.Admin())
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		return err
	}
	_, groups, err := names.ServerGroupsAndResources()
	if err != nil && !onlyMetrics(err) {
		return err
	}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "componentstatuses" {
				continue
			}
			gvr := version.WithResource(resource.Name)
			objects, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("%s: %w", gvr, err)
			}
			for _, object := range objects.Items {
				data, err := object.MarshalJSON()
				if err != nil {
					return err
				}
				into[fmt.Sprintf("%s %s/%s", gvr, object.GetNamespace(), object.GetName())] = string(data)
			}
		}
	}
	return nil
}

// onlyMetrics says that discovery failed for the API server that does not exist, and for no other.
func onlyMetrics(err error) bool {
	failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err)
	return ok && len(failed) == 1 && failed[schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}] != nil
}

// restlessObjects are the objects of restless, as the API shows them.
var restlessObjects = regexp.MustCompile(`Resource=(leases kube-system/apiserver-|events |endpoints default/kubernetes$|endpointslices default/kubernetes-?$|` +
	`ipaddresses |apiservices /v1.metrics.example.com$)`)

// compare fails the test when the two show something else.
func compare(t *testing.T, first, second shown) {
	t.Helper()
	for _, shows := range []shown{first, second} {
		maps.DeleteFunc(shows, func(key, _ string) bool { return restlessObjects.MatchString(key) })
	}
	for key, was := range first {
		if is, exists := second[key]; !exists {
			t.Errorf("%s is not shown any more", key)
		} else if is != was {
			t.Errorf("%s differs:\n  %s\n  %s", key, was, is)
		}
	}
	for key := range second {
		if _, existed := first[key]; !existed {
			t.Errorf("%s was not shown before", key)
		}
	}
	if len(first) < widgets {
		t.Errorf("only %d objects are shown", len(first))
	}
}
