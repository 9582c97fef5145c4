// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/utils/ptr"

	"github.com/tripod-k8s/tripod/local/process"
	"github.com/tripod-k8s/tripod/local/up"
)

// execute runs tripod with arguments and returns what it prints.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newRootCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestWrongCommandLinesAreRefused(t *testing.T) {
	t.Setenv(up.DataDirVariable, t.TempDir())
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown command", []string{"nope"}, "unknown command \"nope\" for \"tripod\": see `tripod --help`"},
		{"mistyped command", []string{"statsu"}, `unknown command "statsu" for "tripod" (similar: status)`},
		{"unknown flag", []string{"up", "--nope"}, "unknown flag: --nope: see `tripod up --help`"},
		{"argument for up", []string{"up", "nope"}, `unknown command "nope"`},
		{"port out of range", []string{"up", "--port=70000"}, "--port 70000 is not between 0 and 65535"},
		{"etcd that is no URL", []string{"up", "--etcd-servers=localhost"}, `etcd server "localhost" is not of the form`},
		{"unknown format", []string{"status", "-o", "text"}, "it is none of table, json, yaml, name, jsonpath=EXPRESSION"},
		{"two names", []string{"down", "--name", "a", "--data-dir", "b"}, "none of the others can be"},
		{"no name", []string{"up", "--name", "../a"}, `"../a" is no name for an instance`},
		{"no instance", []string{"status"}, "tripod does not run in"},
		{"negative time", []string{"status", "--over=-1s"}, "--over -1s is negative"},
		{"no replica to start with", []string{"up", "--core-replicas=0"}, "--core-replicas 0 is not between 1 and 20"},
		{"scale nothing", []string{"scale", "--replicas=2"}, "accepts 1 arg(s), received 0: see `tripod scale --help`"},
		{"scale to no number", []string{"scale", "core"}, "say how many replicas: SERVICE=N, or SERVICE --replicas N"},
		{"scale to two numbers", []string{"scale", "core=2", "--replicas=2"}, "say how many replicas: SERVICE=N, or SERVICE --replicas N"},
		{"scale to an unknown number", []string{"scale", "core=two"}, `"two" is not a number of replicas`},
		{"scale without an instance", []string{"scale", "core", "--replicas=2"}, "tripod does not run in"},
		{"scale a service of one's own without an instance", []string{"scale", "wardle=2"}, "tripod does not run in"},
		{"new without a name", []string{"new", "api-service", "--group=g.example.com", "--kind=K"}, "accepts 1 arg(s), received 0"},
		{"new without a kind", []string{"new", "api-service", "books", "--group=g.example.com"}, `required flag(s) "kind" not set`},
		{"new with a wrong kind", []string{"new", "api-service", "books", "--group=g.example.com", "--kind=book"}, `--kind "book" is not in CamelCase`},
		{"new kind without a name", []string{"new", "kind"}, "accepts 1 arg(s), received 0"},
		{"new kind outside of a service", []string{"new", "kind", "Book", "--directory=testdata"}, "testdata has no go.mod: go to the folder of an API service"},
		{"new version outside of a service", []string{"new", "version", "v1", "--directory=testdata"}, "testdata has no go.mod"},
		{"new of something else", []string{"new", "controller"}, `unknown command "controller" for "tripod new"`},
		{"check in an unknown format", []string{"check", "-o", "yaml"}, `--output must be text or json, not "yaml"`},
		{"token in an unknown format", []string{"join", "token", "-o", "yaml"}, `--output must be text or json, not "yaml"`},
		{"check of no instance", []string{"check", "--name", "nowhere"}, "there is no instance of Tripod in"},
		{"token of no instance", []string{"join", "token", "--name", "nowhere"}, "there is no instance of Tripod in"},
		{"a console for a team without a host", []string{"console", "serve", "--server=https://a"}, "--host is needed"},
		{"a console that would send tokens in clear", []string{"console", "serve", "--server=http://a", "--host=b"}, `--server "http://a" is not a URL with https`},
		{"a console at no port", []string{"console", "serve", "--secure-port=70000"}, "--secure-port is 70000, want 0 to 65535"},
		{"a console without a certificate", []string{"console", "serve", "--server=https://a", "--host=b"}, "--tls-cert-file and --tls-private-key-file: "},
		{"a directory in etcd that is none", []string{"etcd", "access", "--commands", "--service=wardle=x"}, `--service: "wardle=x" is not of the form NAME=/DIRECTORY`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := execute(t, tc.args...)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestHelpNamesWhatIsForUsers(t *testing.T) {
	help, err := execute(t)
	require.NoError(t, err)
	for _, command := range []string{"up", "status", "scale", "check", "certs", "etcd", "migrate", "new", "kubectl", "kube-apiserver", "version", "completion"} {
		assert.Contains(t, help, "\n  "+command+" ", "help does not name %s", command)
	}
	if help, err = execute(t, "etcd"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(help, "\n  snapshot ") || strings.Contains(help, "\n  run ") {
		t.Errorf("help of etcd does not name snapshot, or names run, which is for tripod itself:\n%s", help)
	}
}

// The module requires what this program was built from.
func TestNewServicesHaveTheVersionsOfTripod(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "books")
	out, err := execute(t, "new", "api-service", "books", "--group=library.example.com", "--kind=Book", "--directory", folder)
	require.NoError(t, err)
	assert.Contains(t, out, "cd "+folder+"\n")
	ours, err := os.ReadFile("../../examples/wardle/go.mod")
	require.NoError(t, err)
	theirs, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	requirement := regexp.MustCompile(`(?m)^\t\S+ v\S+$`)
	required := requirement.FindAllString(string(theirs), -1)
	assert.Len(t, required, 4)
	assert.Subset(t, requirement.FindAllString(string(ours), -1), required)
}

// sqlDrivers begin the paths of packages that a program links with a database.
var sqlDrivers = []string{"github.com/jackc/pgx/", "github.com/go-sql-driver/mysql/", "modernc.org/sqlite/"}

// linked returns the packages that a program links, of which one must be a certain one.
func linked(t *testing.T, program, one string) []string {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", program).Output()
	require.NoError(t, err)
	packages := strings.Fields(string(list))
	require.Contains(t, packages, one, "what the program links")
	return packages
}

func assertLinksNone(t *testing.T, packages, below []string) {
	t.Helper()
	for _, name := range packages {
		for _, prefix := range below {
			assert.False(t, strings.HasPrefix(name+"/", prefix), "%s is linked", name)
		}
	}
}

// The image of the drop-in has these programs and no database.
func TestTheProgramsOfTheDropInLinkNoSQLDriver(t *testing.T) {
	const module = "github.com/tripod-k8s/tripod/"
	programs := map[string]string{
		"cmd/tripod": "services/search/diff", "cmd/tripod-supervisor": "local/supervisor", "cmd/tripod-services": "services/core/server",
	}
	for program, one := range programs {
		t.Run(program, func(t *testing.T) {
			packages := linked(t, module+program, module+one)
			assertLinksNone(t, packages, append([]string{module + "services/search/store/"}, sqlDrivers...))
		})
	}
}

// The example of SQL imports its drivers itself.
func TestAPIServicesLinkNeitherKubernetesNorASQLDriver(t *testing.T) {
	kubernetes := []string{"k8s.io/kubernetes/"}
	for example, none := range map[string][]string{
		"wardle": sqlDrivers, "metrics": sqlDrivers, "storages/memory": sqlDrivers, "storages/files": sqlDrivers,
		"storages/readonly": sqlDrivers, "storages/sql": nil,
	} {
		t.Run(example, func(t *testing.T) {
			packages := linked(t, "github.com/tripod-k8s/tripod/examples/"+example, "github.com/tripod-k8s/tripod/apiservice")
			assertLinksNone(t, packages, append(kubernetes, none...))
		})
	}
}

func TestVersionAsJSON(t *testing.T) {
	out, err := execute(t, "version", "-o", "json")
	require.NoError(t, err)
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	for _, key := range []string{"tripod", "kubernetes", "goVersion", "platform"} {
		if got[key] == "" {
			t.Errorf("%s is missing in %s", key, out)
		}
	}
}

func TestCompletionKnowsTheShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, err := execute(t, "completion", shell); err != nil || !strings.Contains(out, "tripod") {
			t.Errorf("%s: err = %v, %d bytes", shell, err, len(out))
		}
	}
}

func TestStatusIsShownToPeopleAndPrograms(t *testing.T) {
	statuses := []up.Status{{
		Status: process.Status{
			Component: "core", Replica: "core-0", PID: 42, Address: "https://127.0.0.1:20000", Ready: true,
			Version: "v1.36.3", StartTime: time.Now().Add(-time.Hour), Restarts: 2, ResidentMemoryBytes: 256 << 20,
		},
		Requests: ptr.To[int64](1234), Share: ptr.To(0.333),
	}, {Status: process.Status{Component: "extensions", Replica: "extensions-0", Message: "restarts in 1.0s"}}}

	var table bytes.Buffer
	require.NoError(t, printStatuses(&table, statuses))
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")
	want := []string{"core-0", "true", "42", "https://127.0.0.1:20000", "v1.36.3", "60m", "2", "256", "MiB", "1234", "33.3%"}
	assert.Equal(t, want, strings.Fields(lines[1]), "line")
	if words := strings.Fields(lines[2]); !strings.HasSuffix(lines[2], "restarts in 1.0s") || !slices.Contains(words, "-") {
		t.Errorf("line %q does not say why extensions is not ready", lines[2])
	}

	var out bytes.Buffer
	require.NoError(t, printJSON(&out, statuses))
	var objects []map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &objects))
	for _, key := range []string{
		"component", "replica", "pid", "address", "ready", "message", "version", "startTime", "restarts", "residentMemoryBytes",
	} {
		if _, ok := objects[0][key]; !ok {
			t.Errorf("key %s is missing", key)
		}
	}
}

// A repository that a user clones may bring a .tripod.
func TestNothingInTheWorkingDirectoryIsTrusted(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	t.Setenv(up.DataDirVariable, "")
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll(".tripod/pki", 0o700))
	require.NoError(t, os.WriteFile(".tripod/kubeconfig", []byte("{users: [{name: a, user: {exec: {command: evil}}}]}"), 0o600))

	require.NoError(t, preferInstance([]string{"get", "pods"}))
	assert.Equal(t, filepath.Join(home, ".tripod", "kubeconfig"), os.Getenv("KUBECONFIG"))
	t.Setenv("KUBECONFIG", "")

	for _, command := range []string{"status", "check"} {
		_, err := execute(t, command)
		assert.ErrorContains(t, err, filepath.Join(home, ".tripod"), command)
	}
	const earlier = "go on using it with --data-dir .tripod"
	printed, err := execute(t, "status")
	require.Error(t, err)
	assert.Contains(t, printed, earlier)
	printed, err = execute(t, "status", "--data-dir", ".tripod")
	assert.EqualError(t, err, "tripod does not run in .tripod: start it with `tripod up`, or give its --name or --data-dir")
	assert.NotContains(t, printed, earlier)
}

func TestKubeconfigThatOthersCanWriteIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777))
	t.Setenv("KUBECONFIG", "")
	t.Setenv(up.DataDirVariable, dir)
	_, err := checkedConfig("", "")
	for _, err := range []error{preferInstance([]string{"get", "pods"}), err} {
		assert.ErrorContains(t, err, "others may write to directory "+dir)
	}
}

func TestKubectlUsesTheInstanceUnlessAskedOtherwise(t *testing.T) {
	dir := t.TempDir()
	ours := filepath.Join(dir, "kubeconfig")
	require.NoError(t, os.WriteFile(ours, nil, 0o600))
	for _, tc := range []struct {
		name, variable string
		args           []string
		want           string
	}{
		{name: "by default", args: []string{"get", "pods"}, want: ours},
		{name: "with KUBECONFIG", variable: "/other", args: []string{"get", "pods"}, want: "/other"},
		{name: "with --kubeconfig FILE", args: []string{"--kubeconfig", "/other", "get", "pods"}, want: os.DevNull},
		{name: "with --kubeconfig=FILE", args: []string{"get", "pods", "--kubeconfig=/other"}, want: os.DevNull},
		{name: "with an empty --kubeconfig", args: []string{"get", "pods", "--kubeconfig="}, want: os.DevNull},
		{name: "with --kubeconfig as the value of another flag", args: []string{"get", "pods", "-o", "--kubeconfig"}, want: os.DevNull},
		{name: "with --kubeconfig for a program in a pod", args: []string{"exec", "pod", "--", "run", "--kubeconfig=/other"}, want: ours},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(up.DataDirVariable, dir)
			t.Setenv("KUBECONFIG", tc.variable)
			require.NoError(t, preferInstance(tc.args))
			assert.Equal(t, tc.want, os.Getenv("KUBECONFIG"), "KUBECONFIG")
		})
	}
}

func TestKubectlUsesANamedInstance(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv(up.DataDirVariable, "")
	t.Setenv("KUBECONFIG", "/other")
	dir, err := up.DataDirNamed("east")
	require.NoError(t, err)
	_, err = preferNamed([]string{"--name", "east", "get", "pods"})
	require.EqualError(t, err, "there is no instance of Tripod in "+string(dir)+
		": start one with `tripod up`, or name a kubeconfig; `tripod list` shows those that there are")
	require.NoError(t, os.Mkdir(string(dir), 0o700))
	require.NoError(t, os.WriteFile(dir.Kubeconfig(), nil, 0o600))
	for _, flag := range [][]string{{"--name", "east"}, {"--name=east"}} {
		t.Setenv("KUBECONFIG", "/other")
		rest, err := preferNamed(append(flag, "get", "pods"))
		require.NoError(t, err)
		assert.Equal(t, []string{"get", "pods"}, rest)
		assert.Equal(t, dir.Kubeconfig(), os.Getenv("KUBECONFIG"))
	}
	t.Setenv("KUBECONFIG", "/other")
	for _, ofKubectl := range [][]string{{}, {"expose", "pod", "a", "--name", "east"}} {
		rest, err := preferNamed(ofKubectl)
		require.NoError(t, err)
		assert.Equal(t, ofKubectl, rest)
		assert.Equal(t, "/other", os.Getenv("KUBECONFIG"))
	}
	_, err = preferNamed([]string{"--name"})
	require.ErrorContains(t, err, "needs an argument")
	_, err = preferNamed([]string{"--name", "east", "get", "--kubeconfig=a"})
	assert.ErrorContains(t, err, "cannot both be given")
}

// kubectl ends the process, so this runs in one of its own.
func TestKubectlWithoutAnInstanceSaysSoInOneLine(t *testing.T) {
	if os.Getenv("TRIPOD_TEST_KUBECTL") != "" {
		runKubectl([]string{"get", "pods"})
		return
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "TRIPOD_TEST_KUBECTL=1", "HOME="+home, "KUBECONFIG=", up.DataDirVariable+"=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.Error(t, cmd.Run())
	assert.Equal(t, "error: there is no instance of Tripod in "+home+
		"/.tripod: start one with `tripod up`, or name a kubeconfig; `tripod list` shows those that there are\n", stderr.String())
}

func TestAnAbsentInstanceIsNotDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	printed, err := execute(t, "delete", "--data-dir", dir)
	assert.EqualError(t, err, "there is no instance in "+dir+": `tripod list` shows those that there are")
	assert.Empty(t, printed)
}

func TestNoNewAPIServiceHasTheNameOfAProcess(t *testing.T) {
	cmd := newRootCommand()
	cmd.SetArgs([]string{"new", "api-service", "etcd", "--group", "library.example.com", "--kind", "Book", "--directory", t.TempDir()})
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), `"etcd" is a process of tripod up: choose another name`)
}
