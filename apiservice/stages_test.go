// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apiservice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/common"
)

// now is a storage with one object that is not kept anywhere.
type now struct{ rest.TableConvertor }

func (now) New() runtime.Object     { return &moment{} }
func (now) Destroy()                {}
func (now) NamespaceScoped() bool   { return false }
func (now) GetSingularName() string { return "moment" }
func (now) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return &moment{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// stages notes what a service does, in order.
type stages struct {
	mu   sync.Mutex
	done []string
}

func (s *stages) note(stage string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, stage)
}

// noted returns a service that notes its stages. serving is closed when its hook runs.
func (s *stages) noted(serving chan struct{}) Service {
	service := *serviceOf(Custom{Name: "moments", Example: &moment{}, New: func(*Environment) (rest.Storage, error) {
		s.note("storage")
		return now{}, nil
	}}, false)
	service.Definitions = func(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		return map[string]common.OpenAPIDefinition{moment{}.OpenAPIModelName(): {}}
	}
	service.AddFlags = func(fs *pflag.FlagSet) { fs.String("database", "", "") }
	service.ValidateFlags = func() error { s.note("validate"); return nil }
	service.Prepare = func(_ context.Context, e *Environment) error {
		s.note(fmt.Sprintf("prepare, with a client: %t", e.Kubernetes != nil))
		return nil
	}
	service.Configure = func(config *genericapiserver.Config, e *Environment) {
		s.note(fmt.Sprintf("configure, complete: %t", config.Authorization.Authorizer != nil && e.Kubernetes != nil))
	}
	service.Hooks = []Hook{{Name: "work", Run: func(ctx context.Context, _ *Environment) error {
		s.note("hook")
		close(serving)
		<-ctx.Done()
		s.note("hook ends")
		return nil
	}}}
	service.Close = func() error { s.note("close"); return nil }
	return service
}

// clusterOf returns the arguments of a service behind a kube-apiserver that has nothing.
func clusterOf(t *testing.T) []string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(req.URL.Path, "/apis/admissionregistration.k8s.io/") {
			fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "admissionregistration.k8s.io/v1", "resources": []}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}],
"clusters": [{"name": "c", "cluster": {"server": %q}}]}`, server.URL), 0o600))
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--authentication-skip-lookup", "--secure-port=" + freePort(t), "--bind-address=127.0.0.1", "--cert-dir=" + t.TempDir(), "--enable-priority-and-fairness=false",
		"--probe-bind-address=", "--disable-admission-plugins=NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
	}
}

func freePort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

func TestAServiceHasStages(t *testing.T) {
	s, serving := &stages{}, make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-serving; stop() }()
	require.NoError(t, Run(ctx, s.noted(serving), clusterOf(t)...))
	assert.Equal(t, []string{"validate", "prepare, with a client: true", "configure, complete: true", "storage", "hook", "hook ends", "close"}, s.done)
}

// TestAServiceIsClosedAfterTheEventsOfItsObjects has an event whose handler still runs when the hooks have ended.
func TestAServiceIsClosedAfterTheEventsOfItsObjects(t *testing.T) {
	s, serving := &stages{}, make(chan struct{})
	service := s.noted(serving)
	handled, hookEnded, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	service.Prepare = func(_ context.Context, e *Environment) error {
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		informer := informers.NewSharedInformerFactory(client, 0).Core().V1().ConfigMaps().Informer()
		e.followers = append(e.followers, informer)
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			close(handled)
			<-hookEnded
			select {
			case <-closed:
			case <-time.After(time.Second): // the service waits
			}
			s.note("event")
		}})
		return err
	}
	run, end := service.Hooks[0].Run, service.Close
	service.Hooks[0].Run = func(ctx context.Context, e *Environment) error {
		defer close(hookEnded)
		return run(ctx, e)
	}
	service.Close = func() error {
		defer close(closed)
		return end()
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-serving; <-handled; stop() }()
	require.NoError(t, Run(ctx, service, clusterOf(t)...))
	assert.Equal(t, []string{"hook ends", "event", "close"}, s.done[len(s.done)-3:])
}

func TestWhatFailsIsClosed(t *testing.T) {
	wrong := errors.New("no more")
	for name, test := range map[string]struct {
		change func(*Service)
		want   []string
	}{
		"flags": {
			func(s *Service) { s.ValidateFlags = func() error { return wrong } },
			nil, // nothing was opened
		},
		"preparation": {
			func(s *Service) { s.Prepare = func(context.Context, *Environment) error { return wrong } },
			[]string{"validate", "close"},
		},
		"a storage": {
			func(s *Service) {
				s.Groups[0].Resources = []Resource{Custom{
					Name: "moments", Example: &moment{}, New: func(*Environment) (rest.Storage, error) { return nil, wrong },
				}}
			},
			[]string{"validate", "prepare, with a client: true", "configure, complete: true", "close"},
		},
		"a hook": {
			func(s *Service) { s.Hooks[0].Run = func(context.Context, *Environment) error { return wrong } },
			[]string{"validate", "prepare, with a client: true", "configure, complete: true", "storage", "close"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stages{}
			service := s.noted(make(chan struct{}))
			test.change(&service)
			assert.ErrorIs(t, Run(t.Context(), service, clusterOf(t)...), wrong)
			assert.Equal(t, test.want, s.done)
		})
	}
}

func TestAPanicOfAHookIsAnError(t *testing.T) {
	s := &stages{}
	service := s.noted(make(chan struct{}))
	service.Hooks[0].Run = func(context.Context, *Environment) error { panic("no more") }
	err := Run(t.Context(), service, clusterOf(t)...)
	require.EqualError(t, err, "work: the hook has panicked: no more")
	assert.Equal(t, "close", s.done[len(s.done)-1], "the service ends in order")
}

// kept is a storage that must be closed.
type kept struct {
	now
	destroy func()
}

func (k kept) Destroy() { k.destroy() }

// noting returns a resource that notes when its storage is made and closed.
func (s *stages) noting(name, version string) Custom {
	return Custom{Name: name, Versions: []string{version}, Example: &moment{}, New: func(*Environment) (rest.Storage, error) {
		s.note(name)
		return kept{destroy: func() { s.note(name + " closed") }}, nil
	}}
}

func TestAStorageIsClosedIfTheServiceDoesNotStart(t *testing.T) {
	s, wrong := &stages{}, errors.New("no more")
	service := s.noted(make(chan struct{}))
	service.Groups[0].Resources = []Resource{s.noting("first", "v1"), Custom{
		Name: "second", Example: &moment{}, New: func(*Environment) (rest.Storage, error) { return nil, wrong },
	}}
	assert.ErrorIs(t, Run(t.Context(), service, clusterOf(t)...), wrong)
	assert.Equal(t, []string{"validate", "prepare, with a client: true", "configure, complete: true", "first", "first closed", "close"}, s.done)
}

func TestADisabledVersionHasNoStorages(t *testing.T) {
	s, serving := &stages{}, make(chan struct{})
	service := s.noted(serving)
	service.AddToScheme = append(service.AddToScheme, func(s *runtime.Scheme) error {
		s.AddKnownTypeWithName(schema.GroupVersion{Group: clock.Group, Version: "v2"}.WithKind("Moment"), &moment{})
		return nil
	})
	service.Groups[0].Versions = []string{"v1", "v2"}
	service.Groups[0].Resources = []Resource{s.noting("disabled", "v2"), s.noting("enabled", "v1")}
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-serving; stop() }()
	require.NoError(t, Run(ctx, service, append(clusterOf(t), "--runtime-config=clock.example.com/v2=false")...))
	assert.Equal(t, []string{"validate", "prepare, with a client: true", "configure, complete: true", "enabled", "hook", "hook ends", "enabled closed", "close"}, s.done)
}

func TestAServiceNeedsAPort(t *testing.T) {
	s := &stages{}
	err := Run(t.Context(), s.noted(make(chan struct{})), append(clusterOf(t), "--secure-port=0")...)
	assert.ErrorContains(t, err, "--secure-port 0")
}
