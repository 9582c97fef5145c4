// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Databases are empty databases of each kind.
type Databases struct {
	servers map[string]*Server
	made    atomic.Int64
}

// Server is a running database server.
type Server struct {
	// Admin may create databases.
	Admin *sql.DB
	// URL returns the URL of a database for store.Open.
	URL func(database string) string
	// PID is that of the process that has started the others, if there are several.
	PID  int
	Stop func()
}

// Start starts the servers, for TestMain. Call Stop at the end.
func Start() (*Databases, error) {
	d := &Databases{servers: map[string]*Server{}}
	for name, start := range map[string]func() (*Server, error){"postgres": func() (*Server, error) { return StartPostgres() }, "mariadb": startMariaDB} {
		started, err := start()
		if err != nil {
			d.Stop()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		d.servers[name] = started
	}
	return d, nil
}

// Stop stops the servers.
func (d *Databases) Stop() {
	for _, s := range d.servers {
		s.Admin.Close() //nolint:errcheck // the server ends
		s.Stop()
	}
}

// Each runs a test once with each kind of database, whose URL it gets.
func (d *Databases) Each(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite(t)) })
	for _, name := range []string{"postgres", "mariadb"} {
		t.Run(name, func(t *testing.T) { test(t, d.New(t, name)) })
	}
}

// SQLite returns the URL of an empty database in a file.
func SQLite(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "search.db") }

// New returns the URL of an empty database of a server: postgres or mariadb.
func (d *Databases) New(t testing.TB, kind string) string {
	t.Helper()
	database := fmt.Sprintf("test%d", d.made.Add(1))
	s := d.servers[kind]
	if _, err := s.Admin.Exec("CREATE DATABASE " + database); err != nil {
		t.Fatal(err)
	}
	return s.URL(database)
}

// find returns a program of a Debian package, which may be outside of PATH.
func find(debian, program, pattern string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	paths, err := filepath.Glob(pattern)
	if err == nil && len(paths) > 0 {
		return slices.Max(paths), nil
	}
	return "", fmt.Errorf("%s is missing: apt-get install %s", program, debian)
}

// folder returns a new folder that belongs to whom the server runs as.
func folder() (path string, credential *syscall.Credential, err error) {
	if path, err = os.MkdirTemp("", "search-test-"); err != nil || os.Getuid() != 0 {
		return path, nil, err
	}
	nobody, err := user.Lookup("nobody") // PostgreSQL does not run as root
	if err != nil {
		return "", nil, err
	}
	uid, err1 := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(nobody.Gid, 10, 32)
	credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return path, credential, errors.Join(err1, err2, os.Chown(path, int(uid), int(gid)))
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close() //nolint:errcheck // nothing was accepted
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// run starts a program in a folder as somebody, and returns its ID and how to stop it.
func run(dir string, as *syscall.Credential, signal syscall.Signal, program string, args ...string) (pid int, stop func(), err error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return 0, nil, err
	}
	defer log.Close() //nolint:errcheck // the program has it
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() {
		cmd.Process.Signal(signal) //nolint:errcheck // Wait returns either way
		cmd.Wait()                 //nolint:errcheck // it was told to stop
		os.RemoveAll(dir)          //nolint:errcheck // it is in the folder for temporary files
	}, nil
}

func prepare(dir string, as *syscall.Credential, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// StartPostgres starts a PostgreSQL, with settings such as shared_buffers=1GB, and without fsync.
func StartPostgres(settings ...string) (*Server, error) {
	initdb, err := find("postgresql", "initdb", "/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return nil, err
	}
	dir, as, err := folder()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := prepare(dir, as, initdb, "-D", data, "-U", "search", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data, "-p", port}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"}, settings...) {
		args = append(args, "-c", setting)
	}
	pid, stop, err := run(dir, as, syscall.SIGQUIT, filepath.Join(filepath.Dir(initdb), "postgres"), args...)
	if err != nil {
		return nil, err
	}
	location := func(database string) string {
		return "postgres://search@127.0.0.1:" + port + "/" + database + "?sslmode=disable"
	}
	admin, err := sql.Open("pgx", location("postgres"))
	return answering(&Server{admin, location, pid, stop}, dir, err)
}

func startMariaDB() (*Server, error) {
	program, err := find("mariadb-server", "mariadbd", "/usr/sbin/mariadbd")
	if err != nil {
		return nil, err
	}
	install, err := find("mariadb-server", "mariadb-install-db", "/usr/bin/mariadb-install-db")
	if err != nil {
		return nil, err
	}
	dir, as, err := folder()
	if err != nil {
		return nil, err
	}
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
	if err := prepare(dir, as, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return nil, err
	}
	pid, stop, err := run(dir, as, syscall.SIGKILL, program, "--no-defaults", "--datadir="+data, "--socket="+socket, "--skip-networking",
		"--innodb-flush-log-at-trx-commit=0", "--pid-file="+filepath.Join(dir, "pid"))
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User = "unix", socket, "root"
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	location := func(database string) string {
		return "mysql://root@localhost/" + database + "?" + url.Values{"socket": {socket}}.Encode()
	}
	return answering(&Server{sql.OpenDB(connector), location, pid, stop}, dir, nil)
}

// answering returns the server when it answers.
func answering(s *Server, dir string, err error) (*Server, error) {
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for s.Admin.PingContext(ctx) != nil {
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			s.Stop()
			return nil, fmt.Errorf("does not answer:\n%s", strings.TrimSpace(string(log)))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return s, nil
}
