// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func backends(coreReplicas ...string) *Backends {
	b := &Backends{Extensions: Replicas{Servers: []string{"https://127.0.0.1:20100"}}}
	for _, replica := range coreReplicas {
		b.Core.Servers = append(b.Core.Servers, "https://"+replica)
	}
	return b
}

func TestWhatIsWrittenIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends.yaml")
	want := &Backends{
		Core: Replicas{
			Servers: []string{"https://127.0.0.1:20001", "https://[::1]:20002/", "dns:///core.tripod-system.svc:6443"},
			GRPC:    []string{"127.0.0.1:20003", "[::1]:20004", "dns:///core.tripod-system.svc:7443"},
		},
		Extensions: Replicas{Servers: []string{"https://extensions"}},
		Services: map[string]Service{
			"wardle": {Replicas: Replicas{Servers: []string{"https://127.0.0.1:20006"}, GRPC: []string{"127.0.0.1:20007"}}, Balance: Rendezvous, Groups: []string{"wardle.example.com"}},
			"search": {Replicas: Replicas{Servers: []string{"https://search"}}},
		},
		Aggregator: Replicas{Servers: []string{"https://127.0.0.1:6443"}},
	}
	require.NoError(t, want.Write(path))
	if got, err := LoadBackends(path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, %v, want %+v", got, err, want)
	}
}

func TestWrongFilesAreRefused(t *testing.T) {
	const extensions = `"extensions": {"servers": ["https://h:1"]}`
	for _, tc := range []struct{ name, content, want string }{
		{"empty", "", "core has no servers"},
		{"no YAML", "{", "does not say where backends are"},
		{"field that does not exist", `{"core": {"server": ["https://h:1"]}}`, `unknown field "server"`},
		{"field twice", `{"core": {"servers": ["https://h:1"], "servers": []}}`, `"servers" already set`},
		{"no servers of extensions", `{"core": {"servers": ["https://h:1"]}}`, "extensions has no servers"},
		{"no URL", `{"core": {"servers": ["127.0.0.1:1"]}, ` + extensions + `}`, `core: server "127.0.0.1:1" is not of the form https://`},
		{"URL of a file", `{"core": {"servers": ["https://h:1/x"]}, ` + extensions + `}`, "is not of the form"},
		{"name without port", `{"core": {"servers": ["dns:///h"]}, ` + extensions + `}`, "is not of the form"},
		{"partition without groups", `{"core": {"servers": ["https://h:1"]}, "services": {"extensions-a": {"servers": ["https://h:1"]}}, ` + extensions + `}`,
			"extensions-a: groups: name at least one API group"},
		{"service with a pattern", `{"core": {"servers": ["https://h:1"]}, "services": {"a": {"servers": ["https://h:1"], "groups": ["*.b"]}}, ` + extensions + `}`,
			`a: groups: "*.b" is not the name of an API group`},
		{"grpc of some", `{"core": {"servers": ["https://h:1", "https://h:2"], "grpc": ["h:3"]}, ` + extensions + `}`,
			"core has 2 servers, but 1 addresses for grpc"},
		{"grpc without port", `{"core": {"servers": ["https://h:1"], "grpc": ["h"]}, ` + extensions + `}`, `grpc "h" is not of the form`},
		{"grpc with port zero", `{"core": {"servers": ["https://h:1"], "grpc": ["h:0"]}, ` + extensions + `}`, `grpc "h:0" is not of the form`},
		{"grpc that is a URL", `{"core": {"servers": ["https://h:1"], "grpc": ["https://h:1"]}, ` + extensions + `}`, "is not of the form host:port"},
		{"grpc of a name for an address", `{"core": {"servers": ["https://h:1"], "grpc": ["dns:///h:1"]}, ` + extensions + `}`,
			"cannot be of the same replicas"},
		{"name of the aggregator's replicas", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "aggregator": {"servers": ["dns:///h:1"]}}`,
			`aggregator: server "dns:///h:1" is not of the form https://host:port`},
		{"grpc of the aggregator", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "aggregator": {"servers": ["https://h:1"], "grpc": ["h:1"]}}`,
			"aggregator: it does not serve gRPC"},
		{"a service without servers", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "services": {"wardle": {}}}`, "wardle has no servers"},
		{"a service of Tripod itself", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "services": {"aggregator": {"servers": ["https://h:1"]}}}`,
			`services: "aggregator" is a service of Tripod itself`},
		{"a service whose name is no label", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "services": {"War.dle": {"servers": ["https://h:1"]}}}`,
			`services: "War.dle" is not the name of a service`},
		{"a service twice", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "services": {"a": {"servers": ["https://h:1"]}, "a": {"servers": ["https://h:1"]}}}`,
			`"a" already set`},
		{"an unknown policy", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "services": {"a": {"servers": ["https://h:1"], "balance": "best"}}}`,
			`a: balance "best" is not one of`},
		{"a group that is no name", `{"core": {"servers": ["https://h:1"]}, ` + extensions + `, "services": {"a": {"servers": ["https://h:1"], "groups": ["apps/v1"]}}}`,
			`a: groups: "apps/v1" is not the name of an API group`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "backends.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			if _, err := LoadBackends(path); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v, want %q and the path", err, tc.want)
			}
		})
	}
	if _, err := LoadBackends(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a file that does not exist was loaded")
	}
	path := filepath.Join(t.TempDir(), "backends.yaml")
	if err := backends().Write(path); err == nil {
		t.Error("a core without servers was written")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("something is there: %v", err)
	}
}

func TestWatchTellsOfChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends.yaml")
	first, second := backends("127.0.0.1:1"), backends("127.0.0.1:1", "127.0.0.1:2")
	w := watcher{path: path, last: first}
	for _, step := range []struct {
		name   string
		change func() error
		want   *Backends
		fails  string
	}{
		{"what it was given", func() error { return first.Write(path) }, nil, ""},
		{"another replica", func() error { return second.Write(path) }, second, ""},
		{"nothing", func() error { return nil }, nil, ""},
		{"not valid", func() error { return os.WriteFile(path, []byte("core: {}"), 0o600) }, nil, "core"},
		{"valid as before", func() error { return second.Write(path) }, nil, ""},
		{"gone", func() error { return os.Remove(path) }, nil, "cannot read"},
		{"back with another content", func() error { return first.Write(path) }, first, ""},
		{"a comment", func() error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, append(data, "# nothing new\n"...), 0o600)
		}, nil, ""},
	} {
		require.NoError(t, step.change())
		got, err := w.look()
		if !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: received %+v, want %+v", step.name, got, step.want)
		}
		if step.fails == "" {
			require.NoError(t, err, step.name)
		} else {
			require.ErrorContains(t, err, step.fails, step.name)
		}
		if again, err := w.look(); again != nil || err != nil {
			t.Errorf("%s: received twice %+v, %v", step.name, again, err)
		}
	}
}

func TestWatchSeesWhatChangedBeforeIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends.yaml")
	now := backends("127.0.0.1:2")
	require.NoError(t, now.Write(path))
	ctx, cancel := context.WithCancel(t.Context())
	WatchBackends(ctx, path, backends("127.0.0.1:1"), func(b *Backends) {
		if !reflect.DeepEqual(b, now) {
			t.Errorf("received %+v, want %+v", b, now)
		}
		cancel()
	})
}

func TestErrorsAreReportedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends.yaml")
	w := watcher{path: path, last: backends("127.0.0.1:1")}
	var failed []bool
	look := func() {
		b, err := w.look()
		if b != nil {
			t.Errorf("received %+v", b)
		}
		failed = append(failed, err != nil)
	}
	look() // missing
	look()
	require.NoError(t, os.WriteFile(path, []byte("wrong: true"), 0o600))
	look()
	look()
	if want := []bool{true, false, true, false}; !reflect.DeepEqual(failed, want) {
		t.Errorf("errors were reported %v, want %v", failed, want)
	}
}

func TestFlag(t *testing.T) {
	var path string
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddBackendsFileFlag(fs, &path, "--core-servers")
	if err := fs.Parse([]string{"--" + BackendsFileFlag + "=x"}); err != nil || path != "x" {
		t.Errorf("path is %q, err = %v", path, err)
	}
}
