// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// Follow returns Dependencies that use the informers of core's authenticators of service account tokens. Call it before these informers
// start.
func Follow(factory informers.SharedInformerFactory, tokens *kubeoptions.ServiceAccountAuthenticationOptions) (*Dependencies, error) {
	objects := factory.Core().V1()
	d := &Dependencies{
		invalidations: newInvalidations(),
		tokens:        tokens,
		accounts:      objects.ServiceAccounts().Lister(),
		secrets:       objects.Secrets().Lister(),
		pods:          objects.Pods().Lister(),
		nodes:         objects.Nodes().Lister(),
	}
	for kind, informer := range map[identityv1.Dependency_Kind]cache.SharedIndexInformer{
		identityv1.Dependency_KIND_SERVICE_ACCOUNT: objects.ServiceAccounts().Informer(),
		identityv1.Dependency_KIND_SECRET:          objects.Secrets().Informer(),
		identityv1.Dependency_KIND_POD:             objects.Pods().Informer(),
		identityv1.Dependency_KIND_NODE:            objects.Nodes().Informer(),
	} {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(before, after any) { d.updated(kind, before.(metav1.Object), after.(metav1.Object)) },
			DeleteFunc: func(deleted any) { d.deleted(kind, deleted) },
		})
		if err != nil {
			return nil, fmt.Errorf("cannot follow the objects that tokens depend on: %w", err)
		}
		d.synced = append(d.synced, registration.HasSynced)
	}
	return d, nil
}

// updated reports an update that may end tokens, and an object that was replaced while the informer did not watch.
func (d *Dependencies) updated(kind identityv1.Dependency_Kind, before, after metav1.Object) {
	replaced := before.GetUID() != after.GetUID()
	// The tokens end some time after the deletion of an object begins (pkg/serviceaccount/claims.go). That time can move, for instance if a
	// Pod is deleted again with a shorter grace period.
	ending := !before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
	if replaced || ending || changedToken(before, after) {
		d.invalidate(kind, before, after.GetResourceVersion())
	}
}

// secretTypes are the types of Secrets that contain tokens. The content of other Secrets does not matter.
var secretTypes = sets.New(corev1.SecretTypeServiceAccountToken, bootstrapapi.SecretTypeBootstrapToken)

// changedToken returns whether the object is a Secret with a token and has changed. Informers also report objects that have not changed.
func changedToken(before, after metav1.Object) bool {
	secret, isSecret := before.(*corev1.Secret)
	return isSecret && secretTypes.Has(secret.Type) && before.GetResourceVersion() != after.GetResourceVersion()
}

func (d *Dependencies) deleted(kind identityv1.Dependency_Kind, deleted any) {
	// The informer missed the deletion, and noticed later that the object is gone.
	if unknown, ok := deleted.(cache.DeletedFinalStateUnknown); ok {
		deleted = unknown.Obj
	}
	if object, ok := deleted.(metav1.Object); ok {
		d.invalidate(kind, object, object.GetResourceVersion())
	}
}

func (d *Dependencies) invalidate(kind identityv1.Dependency_Kind, object metav1.Object, resourceVersion string) {
	d.report(kind, string(object.GetUID()), resourceVersion)
	id, isBootstrap := strings.CutPrefix(object.GetName(), bootstrapapi.BootstrapTokenSecretPrefix)
	if kind == identityv1.Dependency_KIND_SECRET && isBootstrap && object.GetNamespace() == metav1.NamespaceSystem {
		d.report(identityv1.Dependency_KIND_BOOTSTRAP_TOKEN, id, resourceVersion)
	}
}

func (d *Dependencies) report(kind identityv1.Dependency_Kind, id, resourceVersion string) {
	d.invalidations.add(&identityv1.Dependency{Kind: kind, Id: id}, resourceVersion)
	reported.WithLabelValues(label(kind)).Inc()
}

// label returns the value of a metric's label for a kind, such as service_account.
func label(kind identityv1.Dependency_Kind) string {
	return strings.ToLower(strings.TrimPrefix(kind.String(), "KIND_"))
}
