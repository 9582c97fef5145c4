// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/tripod-k8s/tripod/console/searchclient"
)

// identity names an object of a cluster.
type identity struct{ Cluster, Group, Version, Resource, Namespace, Name string }

// identityOf reads the parameters of a page.
func identityOf(values url.Values) (identity, error) {
	id := identity{
		values.Get("cluster"), values.Get("group"), values.Get("version"), values.Get("resource"), values.Get("namespace"), values.Get("name"),
	}
	for name, value := range map[string]string{
		"cluster": id.Cluster, "group": id.Group, "version": id.Version, "resource": id.Resource, "namespace": id.Namespace, "name": id.Name,
	} {
		if value == "" && name != "group" && name != "namespace" {
			return id, badRequest{fmt.Errorf("the address lacks the parameter %s", name)}
		}
		if problems := content.IsPathSegmentName(value); len(problems) > 0 || len(value) > 512 {
			return id, badRequest{fmt.Errorf("the parameter %s is no name of Kubernetes", name)}
		}
	}
	return id, nil
}

func (i identity) values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		"cluster": i.Cluster, "group": i.Group, "version": i.Version, "resource": i.Resource, "namespace": i.Namespace, "name": i.Name,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// Link is that of the object's page.
func (i identity) Link() string { return "object?" + i.values().Encode() }

// list is the path of the objects like this one, in its cluster and namespace.
func (i identity) list() string {
	return searchclient.Resources + "/clusters/" + url.PathEscape(i.Cluster) + i.belowCluster()
}

// everywhere is that path for all clusters.
func (i identity) everywhere() string { return searchclient.Resources + i.belowCluster() }

func (i identity) belowCluster() string {
	var path strings.Builder
	path.WriteString(groupPath(i.Group, i.Version))
	if i.Namespace != "" {
		path.WriteString("/namespaces/" + url.PathEscape(i.Namespace))
	}
	path.WriteString("/" + url.PathEscape(i.Resource))
	return path.String()
}

// path is that of the object.
func (i identity) path() string { return i.list() + "/" + url.PathEscape(i.Name) }

func groupPath(group, version string) string {
	if group == "" {
		return "/api/" + url.PathEscape(version)
	}
	return "/apis/" + url.PathEscape(group) + "/" + url.PathEscape(version)
}
