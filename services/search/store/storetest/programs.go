// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// executable is a program of a Debian package, which may be outside of PATH.
type executable struct{ debian, name, pattern string }

var (
	initdb         = executable{"postgresql", "initdb", "/usr/lib/postgresql/*/bin/initdb"}
	pgbouncer      = executable{"pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer"}
	mariadbd       = executable{"mariadb-server", "mariadbd", "/usr/sbin/mariadbd"}
	mariadbInstall = executable{"mariadb-server", "mariadb-install-db", "/usr/bin/mariadb-install-db"}
)

func (e executable) find() (string, error) {
	if path, err := exec.LookPath(e.name); err == nil {
		return path, nil
	}
	paths, err := filepath.Glob(e.pattern)
	if err == nil && len(paths) > 0 {
		return slices.Max(paths), nil
	}
	return "", fmt.Errorf("%s is missing: apt-get install %s", e.name, e.debian)
}

// server is a kind of server, and the variable that says whether to test it.
type server struct {
	variable string
	programs []executable
}

var servers = map[string]server{
	"postgres":  {"TEST_POSTGRES", []executable{initdb}},
	"pgbouncer": {"TEST_POSTGRES", []executable{pgbouncer}},
	"mariadb":   {"TEST_MARIADB", []executable{mariadbd, mariadbInstall}},
}

// Missing returns why tests do without a server (postgres, pgbouncer or mariadb), or nil. TEST_POSTGRES and TEST_MARIADB decide: 1 demands
// the server, so that tests fail where a program is missing. 0 leaves the server out. Without a value, it is tested if its programs are
// installed.
func Missing(kind string) error {
	s := servers[kind]
	switch os.Getenv(s.variable) {
	case "":
	case "0":
		return fmt.Errorf("not tested with %s: %s=0", kind, s.variable)
	default:
		return nil
	}
	for _, program := range s.programs {
		if _, err := program.find(); err != nil {
			return fmt.Errorf("not tested with %s: %w (%s=1 makes this an error)", kind, err, s.variable)
		}
	}
	return nil
}

// Need skips a test that needs a server if Missing says so.
func Need(t testing.TB, kind string) {
	t.Helper()
	if err := Missing(kind); err != nil {
		t.Skip(err)
	}
}
