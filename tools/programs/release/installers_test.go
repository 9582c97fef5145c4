// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// install runs the script of a release against a server of its files, and returns what it printed. PATH has no cosign.
func install(t *testing.T, r release, server string, args ...string) (string, error) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(r.output, "install.sh")}, args...)...)
	run.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "TRIPOD_DOWNLOAD=" + server}
	output, err := run.CombinedOutput()
	return string(output), err
}

// served serves the files of a release on loopback.
func served(t *testing.T, r release) string {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(r.output)))
	t.Cleanup(server.Close)
	return server.URL
}

// namesIn returns the names of the files in a directory, also of those that begin with a dot.
func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestTheScriptInstallsTheProgramsOfTheRelease(t *testing.T) {
	r := testRelease(t)
	written(t, r)
	dir := filepath.Join(t.TempDir(), "bin")
	output, err := install(t, r, served(t, r), "--dir", dir)
	if err != nil || !strings.Contains(output, "verified the checksum") || !strings.Contains(output, "only the checksum is verified") {
		t.Fatalf("%v: %s", err, output)
	}
	if got, want := namesIn(t, dir), slices.Sorted(slices.Values(r.programs())); !slices.Equal(got, want) {
		t.Errorf("installed %q, want %q", got, want)
	}
	want, err := checksum(r.binary("linux-"+runtime.GOARCH, "tripod-core"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := checksum(filepath.Join(dir, "tripod-core")); err != nil || got != want {
		t.Errorf("tripod-core has the SHA-256 %s (%v), want %s", got, err, want)
	}
	for _, name := range linked {
		if target, err := os.Readlink(filepath.Join(dir, name)); target != "tripod-services" {
			t.Errorf("%s is no link to tripod-services: %q, %v", name, target, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "tripod")); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("tripod cannot be run: %v, %v", info, err)
	}
}

func TestTheScriptInstallsNothingThatItDidNotVerify(t *testing.T) {
	r := testRelease(t)
	written(t, r)
	archive := filepath.Join(r.output, r.base("linux-"+runtime.GOARCH)+".tar.gz")
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		archive []byte
		args    []string
		want    string
	}{
		"another archive":      {append(slices.Clone(content), 0), nil, "is not the file of the release"},
		"half of an archive":   {content[:len(content)/2], nil, "is not the file of the release"},
		"no archive":           {nil, nil, "cannot download"},
		"an unknown argument":  {content, []string{"--force"}, "unknown argument --force"},
		"no name of directory": {content, []string{"--dir"}, "--dir needs a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Remove(archive); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if test.archive != nil {
				if err := os.WriteFile(archive, test.archive, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			dir := filepath.Join(t.TempDir(), "bin")
			output, err := install(t, r, served(t, r), append([]string{"--dir", dir}, test.args...)...)
			if err == nil || !strings.Contains(output, test.want) || !strings.Contains(output, "nothing was installed") {
				t.Errorf("%v: %s, want %q", err, output, test.want)
			}
			if got := namesIn(t, dir); len(got) > 0 {
				t.Errorf("installed %q", got)
			}
		})
	}
}

// TestHalfOfTheScriptDoesNothing is what a shell gets if the download of the script itself breaks off.
func TestHalfOfTheScriptDoesNothing(t *testing.T) {
	r := testRelease(t)
	script := string(written(t, r)["install.sh"])
	dir, server := filepath.Join(t.TempDir(), "bin"), served(t, r)
	lines := strings.SplitAfter(strings.TrimSuffix(script, "\n"), "\n")
	for most := range len(lines) {
		run := exec.CommandContext(t.Context(), "sh", "-s", "--", "--dir", dir)
		run.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "TRIPOD_DOWNLOAD=" + server}
		run.Stdin = strings.NewReader(strings.Join(lines[:most], ""))
		_ = run.Run() // some halves are no script
		if got := namesIn(t, dir); len(got) > 0 {
			t.Fatalf("%d lines of the script installed %q", most, got)
		}
	}
}

func TestTheFormulaHasTheChecksums(t *testing.T) {
	for version, want := range map[string]struct{ file, class, url string }{
		"v0.1.0":          {"tripod.rb", "Tripod", "download/v0.1.0/tripod-v0.1.0-linux-amd64.tar.gz"},
		"v0.1.0-kube1.36": {"tripod-kube1.36.rb", "TripodKube136", "download/v0.1.0/tripod-v0.1.0-kube1.36-linux-amd64.tar.gz"},
	} {
		r := testRelease(t)
		r.version = version
		files := written(t, r)
		formula := string(files[want.file])
		for _, line := range []string{"class " + want.class + " < Formula\n", "releases/" + want.url + "\"\n", `bin.install "tripod", "tripod-supervisor", "tripod-services", "tripod-aggregator", `} {
			if !strings.Contains(formula, line) {
				t.Errorf("%s: the formula has no %q:\n%s", version, line, formula)
			}
		}
		for _, platform := range r.platforms {
			sum, err := checksum(filepath.Join(r.output, r.base(platform)+".tar.gz"))
			if err != nil || !strings.Contains(formula, "sha256 \""+sum+"\"") {
				t.Errorf("%s: the formula does not have the checksum for %s (%v)", version, platform, err)
			}
		}
		if script := strings.Replace(strings.Replace(want.file, "tripod", "install", 1), ".rb", ".sh", 1); files[script] == nil {
			t.Errorf("%s: no script %s in %q", version, script, slices.Sorted(maps.Keys(files)))
		}
	}
}

func TestDpkgInstallsThePackage(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("needs dpkg")
	}
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) string {
		t.Helper()
		output, err := exec.CommandContext(t.Context(), dpkg, append([]string{"--force-not-root", "--log=" + root + "/log", "--root=" + root}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg %q: %v: %s", args, err, output)
		}
		return string(output)
	}
	for _, test := range []struct{ version, want string }{{"v0.1.0-kube1.36", "0.1.0~kube1.36"}, {"v0.1.0", "0.1.0"}} { // an upgrade
		r := testRelease(t)
		r.version = test.version
		written(t, r)
		do("--install", filepath.Join(r.output, r.base("linux-"+runtime.GOARCH)+".deb"))
		if got := do("--status", "tripod"); !strings.Contains(got, "\nVersion: "+test.want+"\n") || !strings.Contains(got, "\nStatus: install ok installed\n") {
			t.Errorf("%s: %s", test.version, got)
		}
		for _, program := range r.programs() {
			want, err := checksum(r.binary("linux-"+runtime.GOARCH, program))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := checksum(filepath.Join(root, "usr/bin", program)); err != nil || got != want {
				t.Errorf("%s: %s has the SHA-256 %s (%v), want %s", test.version, program, got, err, want)
			}
		}
		for _, name := range linked {
			if target, err := os.Readlink(filepath.Join(root, "usr/bin", name)); target != "tripod-services" {
				t.Errorf("%s: %s is no link to tripod-services: %q, %v", test.version, name, target, err)
			}
		}
	}
	do("--verify", "tripod")
	do("--remove", "tripod")
	if got := namesIn(t, filepath.Join(root, "usr/bin")); len(got) > 0 {
		t.Errorf("%q stay", got)
	}
}
