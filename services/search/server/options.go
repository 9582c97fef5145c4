// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listOptions reads the parameters that lists and watches have in Kubernetes, and refuses what kube-apiserver does. Those that search reads
// in its own way are left out.
func listOptions(req *http.Request) (*metav1.ListOptions, error) {
	var options metav1.ListOptions
	values := req.URL.Query()
	values.Del("fieldSelector")
	values.Del("labelSelector")
	watch := isWatch(values)
	if watch {
		values.Del("limit")
	}
	if watch || strings.Trim(values.Get("continue"), "0123456789") == "" { // Clusterpedia's number
		values.Del("continue")
	}
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&values, &options, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	internal := &metainternal.ListOptions{}
	if err := metainternal.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, internal, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateListOptions(internal, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return &options, nil
}
