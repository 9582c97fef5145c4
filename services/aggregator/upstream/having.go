// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/aggregator/routing"
)

// having returns the addresses of the replicas that have the group-version of the request, if others lack it, or else nil.
func (c *call) having() []string {
	partly := c.backend.partlyServed.Load()
	if partly == nil {
		return nil
	}
	return (*partly)[groupVersionOf(c.class, c.req.URL.Path)]
}

// groupVersionOf returns the group-version whose objects or documents a request is for. It is empty if there is none.
func groupVersionOf(class *routing.Request, path string) schema.GroupVersion {
	if class.Info.IsResourceRequest {
		return schema.GroupVersion{Group: class.Info.APIGroup, Version: class.Info.APIVersion}
	}
	group, ok := strings.CutPrefix(strings.TrimPrefix(path, "/openapi/v3"), "/apis/")
	if !ok {
		return schema.GroupVersion{}
	}
	group, version, _ := strings.Cut(group, "/")
	return schema.GroupVersion{Group: group, Version: strings.TrimSuffix(version, "/")}
}
