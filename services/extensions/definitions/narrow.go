// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
)

// header marks requests of a server's own informer of definitions. Only the server itself can send it, see [Mark].
const header = "X-Tripod-Own-Definitions"

type markKey struct{}

// Mark marks the context of requests that [Client] has sent to the server itself.
func Mark(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, marked := req.Header[header]; marked {
			if sender, ok := request.UserFrom(req.Context()); ok && sender.GetName() == user.APIServerUser {
				req = req.WithContext(context.WithValue(req.Context(), markKey{}, true))
			}
		}
		handler.ServeHTTP(w, req)
	})
}

// Narrow returns a getter whose storage of definitions shows marked requests only those of the partition.
func Narrow(getter generic.RESTOptionsGetter, partition Partition) generic.RESTOptionsGetter {
	return decorated{getter, func(decorate generic.StorageDecorator) generic.StorageDecorator {
		return func(
			config *storagebackend.ConfigForResource,
			resourcePrefix string,
			keyFunc func(runtime.Object) (string, error),
			newFunc, newListFunc func() runtime.Object,
			getAttrs storage.AttrFunc,
			trigger storage.IndexerFuncs,
			indexers *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			made, destroy, err := decorate(config, resourcePrefix, keyFunc, newFunc, newListFunc, getAttrs, trigger, indexers)
			return narrowed{made, partition}, destroy, err
		}
	}}
}

// narrowed is a storage that shows marked requests the definitions of a partition.
type narrowed struct {
	storage.Interface
	partition Partition
}

func (s narrowed) apply(ctx context.Context, opts *storage.ListOptions) {
	if ctx.Value(markKey{}) != nil {
		opts.Predicate = s.partition.restrict(opts.Predicate)
	}
}

// GetList implements storage.Interface.
func (s narrowed) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s.apply(ctx, &opts)
	return s.Interface.GetList(ctx, key, opts, list)
}

// Watch implements storage.Interface.
func (s narrowed) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s.apply(ctx, &opts)
	return s.Interface.Watch(ctx, key, opts)
}

// Client returns the configuration of the client by which a server follows and changes its definitions. Reads go to the server itself, at
// loopback, and are marked. writes is the way to the default partition. If it is nil, the server itself is that.
func Client(loopback *rest.Config, writes http.RoundTripper) *rest.Config {
	client := rest.CopyConfig(loopback)
	client.Wrap(func(self http.RoundTripper) http.RoundTripper {
		return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			if !isOfDefinitions(req.URL.Path) {
				return self.RoundTrip(req)
			}
			req = req.Clone(req.Context())
			if req.Method != http.MethodGet && writes != nil {
				req.Header.Del("Authorization") // the token of the server itself
				return writes.RoundTrip(req)
			}
			req.Header[header] = []string{"true"}
			return self.RoundTrip(req)
		})
	})
	return client
}

func isOfDefinitions(path string) bool { return strings.HasPrefix(path, "/apis/apiextensions.k8s.io/") }
