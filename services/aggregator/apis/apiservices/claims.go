// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	"github.com/tripod-k8s/tripod/services/aggregator/routing"
	"github.com/tripod-k8s/tripod/services/aggregator/upstream"
)

// Which backend has a group-version is decided by what is stored. The first backend that is registered keeps it until it reports that it no
// longer serves it. So a restart changes nothing, and several aggregators agree, whichever of them discovers a backend first.

// mayHave reports whether a backend other than core may have a group-version. The caller holds the mutex.
func (r *Registrar) mayHave(backend string, gv schema.GroupVersion) bool {
	switch {
	case !mayBeCustom(gv) || r.claims[upstream.Core][gv]:
		return false
	case backend == upstream.Extensions:
		return true // as in kube-apiserver, CRDs may add versions to a group of core
	}
	return !Builtin(gv.Group) && !r.ofCore[gv.Group] && r.given(backend, gv.Group)
}

// given reports whether an additional backend is not kept from a group.
func (r *Registrar) given(backend, group string) bool {
	groups, limited := r.Groups[backend]
	return !limited || slices.ContainsFunc(groups, func(pattern string) bool { return addresses.MatchGroup(pattern, group) })
}

// refuse logs that a backend does not get a group-version. The caller holds the mutex.
func (r *Registrar) refuse(backend string, gv schema.GroupVersion) {
	if backend == upstream.Extensions {
		klog.V(2).InfoS("No APIService for a group-version of extensions, because it is not custom", "groupVersion", gv)
		return
	}
	if r.firstTime("refuse", backend, gv.Group) {
		klog.ErrorS(nil, "A backend claims a group that it cannot have; no APIService is registered", "backend", backend, "group", gv.Group)
	}
}

// sayConflicts logs which other backends claim a group-version. The caller holds the mutex.
func (r *Registrar) sayConflicts(gv schema.GroupVersion, owner string) {
	for _, other := range r.claimants(gv) {
		if other != owner && r.firstTime("conflict", owner, other, gv.String()) {
			klog.ErrorS(nil, "Two backends claim a group-version; the first that was registered keeps it", "groupVersion", gv, "backend", owner,
				"other", other)
		}
	}
}

// maxLogged bounds how many conflicts are remembered, for a service that claims more and more.
const maxLogged = 10_000

func (r *Registrar) firstTime(what ...string) bool {
	if len(r.logged) >= maxLogged {
		clear(r.logged)
	}
	key := strings.Join(what, " ")
	known := r.logged[key]
	r.logged[key] = true
	return !known
}

// claimants returns the backends that claim a group-version and may have it, in the order of the list. The caller holds the mutex.
func (r *Registrar) claimants(gv schema.GroupVersion) []string {
	var found []string
	for _, backend := range r.Backends {
		if backend != upstream.Core && r.claims[backend][gv] && r.mayHave(backend, gv) {
			found = append(found, backend)
		}
	}
	return found
}

// ownerOf returns the backend that is to have a group-version, or "" if there is none but core. The caller holds the mutex.
func (r *Registrar) ownerOf(gv schema.GroupVersion) string {
	claimants := r.claimants(gv)
	stored := ""
	if service, err := r.Services.Lister().Get(nameOf(gv)); err == nil && service.Labels[autoregister.AutoRegisterManagedLabel] != "" {
		stored = r.backendOf(service)
	}
	switch {
	case slices.Contains(claimants, stored):
		return stored
	case stored != "" && r.claims[stored] == nil && r.mayHave(stored, gv):
		return stored // its backend has not reported yet
	case slices.Contains(claimants, r.owners[gv]):
		return r.owners[gv]
	}
	partition := r.partitionOf(gv.Group)
	switch {
	case slices.Contains(claimants, partition):
		return partition
	case len(claimants) > 0:
		return claimants[0]
	case stored != "" && partition != "" && r.claims[partition] == nil && r.mayHave(partition, gv):
		return partition // the group has moved there, and the partition has not reported yet
	}
	return ""
}

// partitionOf returns the backend that is configured to serve the custom resources of a group, if that is not extensions.
func (r *Registrar) partitionOf(group string) string {
	for _, backend := range r.Backends {
		if _, ok := addresses.PartitionOf(backend); ok && r.given(backend, group) {
			return backend
		}
	}
	return ""
}

// backendOf returns the backend that an APIService gives its group-version to, or "" if that is an aggregated API server.
func (r *Registrar) backendOf(service *apiregistrationv1.APIService) string {
	name, ours := r.Backends.Of(service)
	if ours && name == "" {
		// It is that of custom resources, unless it is core's, which no service claims. The table routes it alike.
		return cmp.Or(r.partitionOf(service.Spec.Group), upstream.Extensions)
	}
	return name
}

// Serves reports whether clients may find an APIService. One of core is not found before a replica of core has reported the group-version
// to this aggregator: another aggregator may have registered it, and this one does not know yet which replicas lack it. A group-version of
// another backend may be moving from one backend to the next, so it is always found.
func (r *Registrar) Serves(service *apiregistrationv1.APIService) bool {
	gv := groupVersionOf(service)
	name, ours := r.Backends.Of(service)
	_, builtin := apiVersionPriorities[gv]
	if !ours || !builtin || gv == crdGroupVersion || name != "" && name != upstream.Core {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, backend := range r.Backends {
		// If core does not have it, extensions may, by a CustomResourceDefinition.
		if backend != upstream.Core && !routing.Owner(backend).ServesCustomResources() {
			continue
		}
		if claims := r.claims[backend]; claims == nil || claims[gv] {
			return true
		}
	}
	return false
}

// Conflict says which other backends claim the group-version of an APIService, or returns "" if there are none. It is false until that is
// certain: another aggregator may know of a conflict with a backend that has not reported here.
func (r *Registrar) Conflict(service *apiregistrationv1.APIService) (message string, certain bool) {
	gv := groupVersionOf(service)
	r.mu.Lock()
	defer r.mu.Unlock()
	owner := r.backendOf(service)
	others := r.others(gv, owner)
	if len(others) == 0 {
		condition := helper.GetAPIServiceConditionByType(service, Conflict)
		if condition == nil {
			return "", true
		}
		named := strings.FieldsFunc(condition.Message, func(c rune) bool { return c == ' ' || c == ';' })
		return "", !slices.ContainsFunc(r.Backends, func(backend string) bool {
			return r.claims[backend] == nil && slices.Contains(named, backend)
		})
	}
	if ref := service.Spec.Service; owner == "" {
		owner = fmt.Sprintf("the Service %s/%s", ref.Namespace, ref.Name)
	}
	return fmt.Sprintf("%s serves %s, which is also claimed by %s; requests go to %[1]s", owner, gv, strings.Join(others, " and ")), true
}

// others returns the backends that claim a group-version of another one. The owner is "" if that is an aggregated API server. The caller
// holds the mutex.
func (r *Registrar) others(gv schema.GroupVersion, owner string) []string {
	return slices.DeleteFunc(r.claimants(gv), func(name string) bool {
		// As in kube-apiserver, an APIService of a user may take the place of a CRD's.
		return name == owner || owner == "" && routing.Owner(name).ServesCustomResources()
	})
}

// guard is the client of the auto-registration controller. The controller may have read another APIService than the registrar. So the guard
// lets it write only what agrees with what is stored: otherwise two aggregators could contradict each other at full speed.
type guard struct {
	apiregistrationclient.APIServicesGetter
	registrar *Registrar
}

// APIServices implements apiregistrationclient.APIServicesGetter.
func (g guard) APIServices() apiregistrationclient.APIServiceInterface {
	return guarded{g.APIServicesGetter.APIServices(), g.registrar}
}

type guarded struct {
	apiregistrationclient.APIServiceInterface
	registrar *Registrar
}

// Update implements apiregistrationclient.APIServiceInterface. After a conflict, the controller looks again when the registrar notifies it.
func (g guarded) Update(
	ctx context.Context, service *apiregistrationv1.APIService, o metav1.UpdateOptions,
) (*apiregistrationv1.APIService, error) {
	if !g.registrar.mayUpdate(service) {
		return nil, apierrors.NewConflict(apiregistrationv1.Resource("apiservices"), service.Name, fmt.Errorf("another backend has it"))
	}
	return g.APIServiceInterface.Update(ctx, service, o)
}

// Delete implements apiregistrationclient.APIServiceInterface.
func (g guarded) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	if !g.registrar.mayDelete(name) {
		return nil
	}
	return g.APIServiceInterface.Delete(ctx, name, o)
}

func (r *Registrar) mayUpdate(service *apiregistrationv1.APIService) bool {
	gv := groupVersionOf(service)
	r.mu.Lock()
	defer r.mu.Unlock()
	owner := r.ownerOf(gv)
	return owner == "" || r.backendOf(service) == owner // without an owner it is built in
}

// strangersMayStay is for how long an APIService stays at least whose backend is not configured here, or not for that group. Other
// aggregators may have it already, or still, while they are replaced. The controller looks again at each resync.
const strangersMayStay = 5 * time.Minute

func (r *Registrar) mayDelete(name string) bool {
	service, err := r.Services.Lister().Get(name)
	if err != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref := service.Spec.Service; ref != nil && ref.Namespace == trust.Namespace &&
		(!r.Backends.Has(ref.Name) || !r.given(ref.Name, service.Spec.Group)) {
		return time.Since(service.CreationTimestamp.Time) > strangersMayStay
	}
	return r.ownerOf(groupVersionOf(service)) == ""
}
