// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
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
	// missing says of each server that does not run why.
	missing map[string]error
	made    atomic.Int64
}

// Server is a running database server.
type Server struct {
	// Admin may create databases.
	Admin *sql.DB
	// URL returns the URL of a database for store.Open.
	URL func(database string) string
	// Open opens a database.
	Open func(database string) (*sql.DB, error)
	// PID is that of the process that has started the others, if there are several.
	PID  int
	Stop func()

	program program
	kill    func() error
}

// Start starts the servers that this machine has, for TestMain. Call Stop at the end.
func Start() (*Databases, error) {
	d := &Databases{servers: map[string]*Server{}, missing: map[string]error{}}
	for kind, start := range map[string]func(...string) (*Server, error){"postgres": StartPostgres, "mariadb": StartMariaDB} {
		if d.missing[kind] = Missing(kind); d.missing[kind] != nil {
			continue
		}
		started, err := start()
		if err != nil {
			d.Stop()
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		d.servers[kind] = started
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

// New returns the URL of an empty database of a server: postgres or mariadb. It skips the test if the machine does not have that server.
func (d *Databases) New(t testing.TB, kind string) string {
	t.Helper()
	// go test keeps results by what tests read, and sees only what they read after TestMain. Without this, a test that was skipped stays so
	// when a server was installed.
	_ = Missing(kind)
	if err := d.missing[kind]; err != nil {
		t.Skip(err)
	}
	database := fmt.Sprintf("test%d", d.made.Add(1))
	s := d.servers[kind]
	if _, err := s.Admin.Exec("CREATE DATABASE " + database); err != nil {
		t.Fatal(err)
	}
	return s.URL(database)
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

// own makes a directory with an owner, unless it exists.
func own(path string, as *syscall.Credential) error {
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil || as == nil {
		return err
	}
	return os.Chown(path, int(as.Uid), int(as.Gid))
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

// program is what a server runs.
type program struct {
	dir  string
	as   *syscall.Credential
	path string
	args []string
	// end is the signal that ends it.
	end syscall.Signal
}

// start starts the program in its folder.
func (p *program) start() (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the program has it
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.SysProcAttr = attributes(p.as)
	return cmd, cmd.Start()
}

func prepare(dir string, as *syscall.Credential, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// StartPostgres starts an empty PostgreSQL, with settings such as shared_buffers=1GB, and without fsync.
func StartPostgres(settings ...string) (*Server, error) { return StartPostgresIn("", settings...) }

// StartPostgresIn does the same, but keeps the databases in a directory, with those that it has. An empty name stands for a directory that
// Stop removes.
func StartPostgresIn(data string, settings ...string) (*Server, error) {
	create, err := initdb.find()
	if err != nil {
		return nil, err
	}
	dir, as, err := folder()
	if err != nil {
		return nil, err
	}
	signal := syscall.SIGINT
	if data == "" {
		data, signal = filepath.Join(dir, "data"), syscall.SIGQUIT
	} else if err := own(data, as); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); errors.Is(err, fs.ErrNotExist) {
		if err := prepare(dir, as, create, "-D", data, "-U", "search", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data, "-p", port}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"}, settings...) {
		args = append(args, "-c", setting)
	}
	location := func(database string) string {
		return "postgres://search@127.0.0.1:" + port + "/" + database + "?sslmode=disable"
	}
	open := func(database string) (*sql.DB, error) { return sql.Open("pgx", location(database)) }
	admin, err := open("postgres")
	if err != nil {
		return nil, err
	}
	return start(&Server{Admin: admin, URL: location, Open: open, program: program{dir, as, filepath.Join(filepath.Dir(create), "postgres"),
		args, signal}})
}

// StartMariaDB starts a MariaDB, with flags such as --innodb-flush-log-at-trx-commit=2. Without that one, a killed server may lose a
// second.
func StartMariaDB(flags ...string) (*Server, error) {
	server, err := mariadbd.find()
	if err != nil {
		return nil, err
	}
	install, err := mariadbInstall.find()
	if err != nil {
		return nil, err
	}
	dir, as, err := folder()
	if err != nil {
		return nil, err
	}
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "socket")
	if err := prepare(dir, as, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db",
		"--tmpdir="+dir); err != nil {
		return nil, err
	}
	open := func(database string) (*sql.DB, error) {
		config := mysql.NewConfig()
		config.Net, config.Addr, config.User, config.DBName = "unix", socket, "root", database
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	}
	admin, err := open("")
	if err != nil {
		return nil, err
	}
	location := func(database string) string {
		return "mysql://root@localhost/" + database + "?" + url.Values{"socket": {socket}}.Encode()
	}
	args := append([]string{
		"--no-defaults", "--datadir=" + data, "--socket=" + socket, "--skip-networking", "--innodb-flush-log-at-trx-commit=0",
		"--pid-file=" + filepath.Join(dir, "pid"),
		"--tmpdir=" + dir, // a server that starts empties this folder
	}, flags...)
	return start(&Server{Admin: admin, URL: location, Open: open, program: program{dir, as, server, args, syscall.SIGKILL}})
}

// start returns the server when it answers.
func start(s *Server) (*Server, error) {
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, nil
}

// Start starts a server that Kill has ended, with the data that it had. It returns when the server answers.
func (s *Server) Start() error {
	cmd, err := s.program.start()
	if err != nil {
		return err
	}
	s.PID, s.Stop = cmd.Process.Pid, func() {
		cmd.Process.Signal(s.program.end) //nolint:errcheck // Wait returns either way
		cmd.Wait()                        //nolint:errcheck // it was signalled to stop
		os.RemoveAll(s.program.dir)       //nolint:errcheck // it is in the folder for temporary files
	}
	s.kill = func() error { return killFamily(cmd) }
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for s.Admin.PingContext(ctx) != nil {
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.program.dir, "log"))
			s.Stop()
			return fmt.Errorf("does not answer:\n%s", strings.TrimSpace(string(log)))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// Kill ends all processes of the server by SIGKILL. Start starts it again.
func (s *Server) Kill() error { return s.kill() }

// killFamily ends a process and those that it has started, and returns when they are gone. PostgreSQL does not start while one is left.
func killFamily(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	await(cmd.Process.Pid, "T") // it starts no more
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		return err
	}
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	cmd.Wait() //nolint:errcheck // it was killed
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		await(pid, "Z")
	}
	return nil
}

// await returns when a process is in a state of proc_pid_stat(5), or gone.
func await(pid int, state string) {
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, is, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(is, state) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
