// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
)

// passedOn are the subresources whose requests kube-apiserver forwards to a kubelet, pod or service.
var passedOn = sets.NewString("attach", "exec", "log", "portforward", "proxy")

// LongRunning reports whether a request lasts until the client or the object ends it. It is kube-apiserver's rule.
var LongRunning request.LongRunningRequestCheck = filters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"), passedOn)

// PassedOn reports whether kube-apiserver forwards the request to a kubelet, pod or service, which may answer anything that HTTP allows.
func PassedOn(info *request.RequestInfo) bool {
	return info.IsResourceRequest && (info.Verb == "proxy" || passedOn.Has(info.Subresource))
}
