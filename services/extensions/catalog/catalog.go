// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalog reports to aggregators, through the feed of a replica, which custom resources it serves.
package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apihelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/admission/loopback"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Publisher gets what the replica serves.
type Publisher interface {
	SetCatalog(*backendv1.Catalog)
	Establish(*backendv1.Established)
	Forget(uid string)
}

// own is what the replica serves besides custom resources.
var own = apiextensionsv1.SchemeGroupVersion

// catalog consists of the CustomResourceDefinitions that a replica knows.
type catalog struct {
	publisher Publisher
	// definitions is set if the replica serves definitions to clients.
	definitions bool
	// build changes with whatever else determines the documents.
	build string

	mu sync.Mutex
	// complete is set once the informer has all definitions. Until then the catalog only reports which resources became usable.
	complete bool
	entries  map[types.UID]entry
}

// entry is what the documents contain of one CustomResourceDefinition.
type entry struct {
	groupVersions []schema.GroupVersion
	// state determines the content of the documents.
	state string
	// webhook is the path of the conversion webhook at the kubernetes Service, or empty.
	webhook string
}

// Follow publishes what the informer knows, from now on. The replica must serve custom resources by the same informer: its store changes
// before its handlers run, so the replica serves what the catalog says. build names the version of this program.
func Follow(informer cache.SharedIndexInformer, build string, definitions bool, publisher Publisher) error {
	c := &catalog{publisher: publisher, definitions: definitions, build: build, entries: map[types.UID]entry{}}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { c.put(added.(*apiextensionsv1.CustomResourceDefinition)) },
		UpdateFunc: func(_, updated any) { c.put(updated.(*apiextensionsv1.CustomResourceDefinition)) },
		DeleteFunc: c.remove,
	})
	if err != nil {
		return fmt.Errorf("follow CustomResourceDefinitions: %w", err)
	}
	go func() {
		<-registration.HasSyncedChecker().Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.complete = true
		c.publish()
	}()
	return nil
}

func (c *catalog) put(crd *apiextensionsv1.CustomResourceDefinition) {
	now := describe(crd)
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, known := c.entries[crd.UID]; !known || before.state != now.state {
		c.entries[crd.UID] = now
		c.publish()
	}
	if apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		c.publisher.Establish(&backendv1.Established{
			Group: crd.Spec.Group, Resource: crd.Status.AcceptedNames.Plural, Uid: string(crd.UID),
		})
	}
}

func (c *catalog) remove(removed any) {
	if unknown, ok := removed.(cache.DeletedFinalStateUnknown); ok {
		removed = unknown.Obj
	}
	crd, ok := removed.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, crd.UID)
	c.publisher.Forget(string(crd.UID))
	c.publish()
}

// publish publishes what is served. The caller holds the lock.
func (c *catalog) publish() {
	if !c.complete {
		return
	}
	served, webhooks := map[schema.GroupVersion]bool{}, map[string]bool{}
	if c.definitions {
		served[own] = true
	}
	digest := sha256.New()
	fmt.Fprintln(digest, c.build)
	for _, uid := range slices.Sorted(maps.Keys(c.entries)) {
		fmt.Fprintln(digest, uid, c.entries[uid].state)
		for _, gv := range c.entries[uid].groupVersions {
			served[gv] = true
		}
		if webhook := c.entries[uid].webhook; webhook != "" {
			webhooks[webhook] = true
		}
	}
	sum := hex.EncodeToString(digest.Sum(nil))
	message := &backendv1.Catalog{DiscoveryDigest: sum, OpenapiDigest: sum, ConversionWebhooks: slices.Sorted(maps.Keys(webhooks))}
	for _, gv := range slices.SortedFunc(maps.Keys(served), compare) {
		message.GroupVersions = append(message.GroupVersions, &backendv1.GroupVersion{Group: gv.Group, Version: gv.Version})
	}
	c.publisher.SetCatalog(message)
}

func compare(a, b schema.GroupVersion) int {
	if by := strings.Compare(a.Group, b.Group); by != 0 {
		return by
	}
	return strings.Compare(a.Version, b.Version)
}

// describe returns what the documents contain of a CustomResourceDefinition. Its generation stands for its spec, which may have megabytes.
// As in kube-apiserver (crdregistration), a version gets an APIService as soon as it is served, before the CustomResourceDefinition is
// established.
func describe(crd *apiextensionsv1.CustomResourceDefinition) entry {
	e := entry{webhook: conversionWebhook(crd)}
	for _, version := range crd.Spec.Versions {
		if version.Served {
			e.groupVersions = append(e.groupVersions, schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name})
		}
	}
	names, _ := json.Marshal(crd.Status.AcceptedNames) // strings can always be marshalled
	e.state = fmt.Sprint(crd.Generation, string(names),
		apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted),
		apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established),
		apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating),
		apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NonStructuralSchema),
		apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.KubernetesAPIApprovalPolicyConformant))
	return e
}

// conversionWebhook returns the path of the conversion webhook at the kubernetes Service, or "".
func conversionWebhook(crd *apiextensionsv1.CustomResourceDefinition) string {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter ||
		conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return ""
	}
	config := conversion.Webhook.ClientConfig
	switch {
	case config.Service != nil:
		return loopback.WebhookPath(config.Service.Namespace, config.Service.Name, config.Service.Port, config.Service.Path)
	case config.URL != nil:
		return loopback.WebhookPathOfURL(*config.URL)
	}
	return ""
}
