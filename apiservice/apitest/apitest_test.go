// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericrest "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/metadata"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/tripod-k8s/tripod/apiservice"
	"github.com/tripod-k8s/tripod/apiservice/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, clock())) }

// needsTripod skips a test on a machine that has not built tripod. make test-integration has.
func needsTripod(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tripod"); err != nil && os.Getenv("TEST_TRIPOD") != "1" {
		t.Skip("tripod is not in the PATH: make test-integration")
	}
}

var moments = schema.GroupVersionResource{Group: "clock.example.com", Version: "v1", Resource: "moments"}

// moment is a kind without fields of its own.
type moment struct{ metav1.PartialObjectMetadata }

func (m *moment) DeepCopyObject() runtime.Object { return &moment{*m.PartialObjectMetadata.DeepCopy()} }
func (moment) OpenAPIModelName() string          { return "com.example.clock.v1.Moment" }

// storage has any object that is asked for, with a label that a flag gives.
type storage struct {
	genericrest.TableConvertor
	label string
}

func (storage) New() runtime.Object     { return &moment{} }
func (storage) Destroy()                {}
func (storage) NamespaceScoped() bool   { return false }
func (storage) GetSingularName() string { return "moment" }
func (s storage) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	m := &moment{}
	m.Name, m.Labels = name, map[string]string{"label": s.label, "pid": strconv.Itoa(os.Getpid())}
	return m, nil
}

// clock is a service that keeps nothing.
func clock() apiservice.Service {
	var label string
	return apiservice.Service{
		Name: "clock",
		AddToScheme: []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
			s.AddKnownTypes(moments.GroupVersion(), &moment{})
			metav1.AddToGroupVersion(s, moments.GroupVersion())
			return nil
		}},
		Definitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
			return map[string]common.OpenAPIDefinition{moment{}.OpenAPIModelName(): {}}
		},
		AddFlags: func(fs *pflag.FlagSet) { fs.StringVar(&label, "label", "", "label of all moments") },
		Groups: []apiservice.Group{{Name: moments.Group, Versions: []string{moments.Version}, Resources: []apiservice.Resource{
			apiservice.Custom{Name: moments.Resource, Example: &moment{}, New: func(*apiservice.Environment) (genericrest.Storage, error) {
				return storage{label: label}, nil
			}},
		}}},
	}
}

func get(t *testing.T, api *apitest.API) map[string]string {
	t.Helper()
	client, err := metadata.NewForConfig(api.Admin())
	require.NoError(t, err)
	m, err := client.Resource(moments).Get(t.Context(), "now", metav1.GetOptions{})
	require.NoError(t, err)
	return m.Labels
}

func TestEachTestHasAnInstance(t *testing.T) {
	t.Parallel()
	needsTripod(t)
	for _, label := range []string{"a", "b"} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			api := apitest.Options{Args: []string{"--label=" + label}}.Start(t, clock())
			labels := get(t, api)
			assert.Equal(t, label, labels["label"])
			assert.NotEqual(t, strconv.Itoa(os.Getpid()), labels["pid"], "the service has a process of its own")
		})
	}
}

// recorder is a test that notes why it ended.
type recorder struct {
	testing.TB
	fatal string
}

type ended struct{}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	panic(ended{})
}

func TestErrorsNameTheirCause(t *testing.T) {
	t.Parallel()
	needsTripod(t)
	other := clock()
	other.Name = "other"
	silent := filepath.Join(t.TempDir(), "tripod")
	require.NoError(t, os.WriteFile(silent, []byte("#!/bin/sh\necho no room >&2\nexit 3\n"), 0o700))
	for name, test := range map[string]struct {
		options apitest.Options
		service apiservice.Service
		want    string
	}{
		"a service that Main does not know":   {apitest.Options{}, other, "the test binary does not know the service \"other\": write func TestMain"},
		"a tripod that does not start":        {apitest.Options{Program: silent}, clock(), "`tripod up` ended: exit status 3\nno room"},
		"a flag that the service has not":     {apitest.Options{Args: []string{"--colour=red"}, Timeout: 20 * time.Second}, clock(), "unknown flag: --colour"},
		"a replica that does not exist":       {apitest.Options{}, clock(), "there is no replica clock-7"},
		"a flag that tripod up does not know": {apitest.Options{UpArgs: []string{"--colour=red"}}, clock(), "unknown flag: --colour"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			func() {
				defer func() { require.Equal(t, ended{}, recover()) }()
				test.options.Start(r, test.service).Kill("clock-7")
			}()
			assert.Contains(t, r.fatal, test.want)
		})
	}
}

// victimVariable is set in the process of TestNothingIsLeftBehind, and sets how it ends.
const victimVariable = "APITEST_VICTIM"

func TestVictim(t *testing.T) {
	how := os.Getenv(victimVariable)
	if how == "" {
		t.Skip("TestNothingIsLeftBehind starts it in a process of its own")
	}
	api := apitest.Start(t, clock())
	fmt.Printf("data %s\n", filepath.Dir(api.Kubeconfig()))
	if how == "panic" {
		go panic("the test panics")
	}
	select {}
}

// However a test binary ends, its processes end with it.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	needsTripod(t)
	for _, how := range []string{"panic", "kill -9"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(os.Args[0], "-test.run=^TestVictim$")
			command.Env = append(os.Environ(), victimVariable+"="+how)
			var output bytes.Buffer
			command.Stderr = &output
			out, err := command.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, command.Start())
			lines, data := bufio.NewScanner(out), ""
			for data == "" && lines.Scan() {
				_, data, _ = strings.Cut(lines.Text(), "data ")
			}
			require.NotEmpty(t, data, "%s", &output)
			if how == "kill -9" {
				require.NotEmpty(t, processesOf(t, data))
				require.NoError(t, command.Process.Signal(syscall.SIGKILL))
			}
			require.Error(t, command.Wait())
			require.Eventually(t, func() bool { return len(processesOf(t, data)) == 0 }, time.Minute, 50*time.Millisecond,
				"processes of the instance go on: %v", processesOf(t, data))
			_ = os.RemoveAll(filepath.Dir(data)) // which only the test could have removed
		})
	}
}

// processesOf returns the processes whose command line names a directory.
func processesOf(t *testing.T, dir string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(dir)) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
