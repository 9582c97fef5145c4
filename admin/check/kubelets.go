// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/pager"
)

// olderKubelets is how many minor versions a kubelet may be older than the API server
// (https://kubernetes.io/releases/version-skew-policy/#kubelet).
const olderKubelets = 3

// checkKubelets returns an error if nodes have kubelets that are newer than the API server: Kubernetes does not support them, and they may
// use APIs that the server does not have. It warns of kubelets that are too old: they go on working, and may miss what newer ones do. Not
// every user may list nodes.
func (c *Check) checkKubelets(ctx context.Context) error {
	server, err := c.serverVersion(ctx)
	if err != nil {
		return nil //nolint:nilerr // another API server may not report it
	}
	count, example := map[uint]int{}, map[uint]string{}
	nodes := c.Client.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return nodes.List(ctx, options)
	}
	err = pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		node, ok := object.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		version, _, _ := unstructured.NestedString(node.Object, "status", "nodeInfo", "kubeletVersion")
		if kubelet, err := utilversion.ParseGeneric(version); err == nil && kubelet.Major() == server.Major() {
			count[kubelet.Minor()]++
			example[kubelet.Minor()] = node.GetName()
		}
		return nil
	})
	if err != nil {
		return nil //nolint:nilerr // the user may not list nodes
	}
	newest := server.Minor()
	oldest := newest - min(newest, olderKubelets)
	var tooNew []string
	for _, minor := range slices.Sorted(maps.Keys(count)) {
		found := fmt.Sprintf("nodes have kubelets of 1.%d (%d, one is %s), and this API server works with 1.%d to 1.%d",
			minor, count[minor], example[minor], oldest, newest)
		switch {
		case minor < oldest:
			c.report(Warning, found)
		case newest < minor:
			tooNew = append(tooNew, found)
		}
	}
	if len(tooNew) > 0 {
		return errors.New(strings.Join(tooNew, "; "))
	}
	return nil
}

// serverVersion returns the version whose API the server has: the one that it emulates, or its own.
func (c *Check) serverVersion(ctx context.Context) (*utilversion.Version, error) {
	code, answer, err := c.Health(ctx, "/version")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, errors.New(http.StatusText(code))
	}
	var info apimachineryversion.Info
	if err := json.Unmarshal([]byte(answer), &info); err != nil {
		return nil, err
	}
	if info.EmulationMajor != "" && info.EmulationMinor != "" {
		return utilversion.ParseGeneric(info.EmulationMajor + "." + info.EmulationMinor)
	}
	return utilversion.ParseGeneric(info.GitVersion)
}
