// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/list"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

// RefuseOtherGroups answers 503 to requests for API groups of other partitions. The replica has none of their definitions, and a 404 would
// mean that the objects do not exist. So during a rollout, and with an old configuration, no replica reads or writes a group of another
// partition.
func (p Partition) RefuseOtherGroups(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		group, ok := groupOf(req.URL.Path)
		if !ok || p.serves(group, req) {
			handler.ServeHTTP(w, req)
			return
		}
		err := apierrors.NewServiceUnavailable(fmt.Sprintf("%s does not serve the API group %s: %s does",
			nameOf(p.Name), group, nameOf(p.Table.Of(group))))
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, schema.GroupVersion{}, w, req)
	})
}

func (p Partition) serves(group string, req *http.Request) bool {
	if group == apiextensions.GroupName && !p.IsDefault() {
		sender, ok := request.UserFrom(req.Context())
		return ok && sender.GetName() == user.APIServerUser // its own informer
	}
	return p.HasGroup(group)
}

// groupOf returns the API group that a path is about.
func groupOf(path string) (group string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "/openapi/v3"), "/apis/")
	group, _, _ = strings.Cut(rest, "/")
	return group, ok && group != ""
}

func nameOf(partition string) string {
	if partition == partitions.Default {
		return list.Extensions
	}
	return addresses.PartitionBackend(partition)
}

// RefuseOtherStatus answers 403 if a partition changes the status of a definition of another partition. By their rights, partitions may
// change the status of each.
func (p Partition) RefuseOtherStatus(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sender, _ := request.UserFrom(req.Context())
		info, known := request.RequestInfoFrom(req.Context())
		if partition, ok := partitionOf(sender); ok && known && writesDefinition(info) && !(Partition{p.Table, partition}).Has(info.Name) {
			err := apierrors.NewForbidden(Resource, info.Name, fmt.Errorf("it is not a definition of the partition %s here", partition))
			responsewriters.ErrorNegotiated(err, apiextensionsapiserver.Codecs, schema.GroupVersion{}, w, req)
			return
		}
		handler.ServeHTTP(w, req)
	})
}

func writesDefinition(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.APIGroup == Resource.Group && info.Resource == Resource.Resource &&
		!slices.Contains([]string{"get", "list", "watch"}, info.Verb)
}

// partitionOf returns the partition that is a sender.
func partitionOf(sender user.Info) (partition string, ok bool) {
	service, ok := strings.CutPrefix(trust.ServiceOf(sender), trust.UserOf(""))
	if !ok {
		return "", false
	}
	return addresses.PartitionOf(service)
}
