// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package embedded runs an etcd of one member inside a process of its own, for `tripod up`.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lockTimeout is how long to wait for the database when another process has it open.
	lockTimeout = 5 * time.Second
	// MemberName is the name of the only member.
	MemberName = "tripod"
	// PeerURL identifies it to itself; nothing listens there.
	PeerURL = "http://localhost:2380"

	// historyKept is how much history etcd keeps. Services with users of their own may not compact it, so etcd does, as often as API servers
	// would.
	historyKept = "5m"
	// unsupported is in the error of data that a newer etcd has stored. etcd does not export it. If the text changes, a test of upgrades
	// fails.
	unsupported = "is not supported"
)

// Version is the version of etcd.
var Version = version.Version

// Options say how to run etcd.
type Options struct {
	// DataDir is where etcd keeps its data.
	DataDir string
	// ClientURL is where etcd serves, as in https://127.0.0.1:2379.
	ClientURL string
	// CertFile and KeyFile are the serving certificate; clients must have one signed by TrustedCAFile. They are
	// needed with an https URL.
	CertFile, KeyFile, TrustedCAFile string
	// LogLevel is the least severe level that is logged: debug, info, warn, error.
	LogLevel string
}

// Run runs etcd until ctx ends.
func Run(ctx context.Context, o Options) error {
	config, err := o.config()
	if err != nil {
		return err
	}
	if err := awaitUnlocked(ctx, o.DataDir, lockTimeout); err != nil {
		return err
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return explain(err, o)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd stopped: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("etcd stopped by itself")
	}
}

func (o Options) config() (*embed.Config, error) {
	client, err := url.Parse(o.ClientURL)
	if err != nil || client.Host == "" {
		return nil, fmt.Errorf("--client-url %q is not of the form https://host:port", o.ClientURL)
	}
	peer, err := url.Parse(PeerURL)
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Name = MemberName
	config.Dir = o.DataDir
	config.LogLevel = o.LogLevel
	// Zero would have every request logged.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	config.LogOutputs = []string{embed.StdErrLogOutput}
	config.AutoCompactionMode, config.AutoCompactionRetention = embed.CompactorModePeriodic, historyKept
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo.CertFile = o.CertFile
	config.ClientTLSInfo.KeyFile = o.KeyFile
	config.ClientTLSInfo.TrustedCAFile = o.TrustedCAFile
	config.ClientTLSInfo.ClientCertAuth = o.TrustedCAFile != ""
	return config, nil
}

// awaitUnlocked returns when no other process has the database in dataDir open. etcd itself would wait for that in
// silence and without an end.
func awaitUnlocked(ctx context.Context, dataDir string, timeout time.Duration) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory of etcd: %w", err)
	}
	db, err := os.OpenFile(filepath.Join(dataDir, "member", "snap", "db"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open the database of etcd: %w", err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		return syscall.Flock(int(db.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("another etcd uses the data in %s", dataDir)
	}
	return err
}

func explain(err error, o Options) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address of etcd is already in use: %s", o.ClientURL)
	}
	if strings.Contains(err.Error(), unsupported) {
		return fmt.Errorf("etcd %s cannot use the data of a newer etcd in %s: start the newer version again, and have it run "+
			"`tripod etcd downgrade` first: %w", Version, o.DataDir, err)
	}
	return fmt.Errorf("cannot start etcd with the data in %s: %w", o.DataDir, err)
}
