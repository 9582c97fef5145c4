// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/services/shared/partitions"
)

const (
	groupEtcdServersFlag = "group-etcd-servers"
	groupEtcdCAFlag      = "group-etcd-cafile"
	groupEtcdCertFlag    = "group-etcd-certfile"
	groupEtcdKeyFlag     = "group-etcd-keyfile"
)

// GroupEtcds are the etcds that API groups have of their own.
type GroupEtcds struct {
	// Servers are URLs by API group (GROUP=URL[,URL...]). A group is a name, or *.SUFFIX.
	Servers []string
	// CAFiles, CertFiles and KeyFiles secure the connections to all of them (FILE), or to those of one entry of Servers (GROUP=FILE).
	CAFiles, CertFiles, KeyFiles []string
	// CompactionInterval is how often the replica compacts each.
	CompactionInterval time.Duration

	// etcd are the options of --etcd-servers, from which the rest is taken.
	etcd *genericoptions.EtcdOptions
}

func newGroupEtcds(etcd *genericoptions.EtcdOptions) GroupEtcds {
	return GroupEtcds{CompactionInterval: etcd.StorageConfig.CompactionInterval, etcd: etcd}
}

func (e *GroupEtcds) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&e.Servers, groupEtcdServersFlag, e.Servers,
		"etcd that has the custom resources of an API group, instead of --etcd-servers (GROUP=URL[,URL...]). GROUP is the name of a group, or "+
			"*.SUFFIX for all groups below SUFFIX. CustomResourceDefinitions stay in --etcd-servers. A group with objects moves by "+
			"`tripod migrate groups`. Repeat the flag for each etcd.")
	files := func(to *[]string, name, what, without string) {
		fs.StringArrayVar(to, name, *to, what+" for all etcds of --"+groupEtcdServersFlag+" (FILE), or for one of them (GROUP=FILE, with the "+
			"GROUP there). Without the flag, that of "+without+".")
	}
	files(&e.CAFiles, groupEtcdCAFlag, "CA of the certificate", "--etcd-cafile")
	files(&e.CertFiles, groupEtcdCertFlag, "Client certificate", "--etcd-certfile")
	files(&e.KeyFiles, groupEtcdKeyFlag, "Key of the client certificate", "--etcd-keyfile")
	fs.DurationVar(&e.CompactionInterval, "group-etcd-compaction-interval", e.CompactionInterval,
		"Interval of compaction requests to the etcds of --"+groupEtcdServersFlag+". If 0, the replica does not compact them.")
}

// Of returns the etcd of an API group, if it has one of its own.
func (e *GroupEtcds) Of(group string) (storagebackend.Config, bool) {
	for _, entry := range e.Servers {
		pattern, servers, _ := strings.Cut(entry, "=")
		if !addresses.MatchGroup(pattern, group) {
			continue
		}
		config := e.etcd.StorageConfig
		config.CompactionInterval = e.CompactionInterval
		to := &config.Transport
		to.ServerList = strings.Split(servers, ",")
		to.TrustedCAFile = e.fileOf(pattern, e.CAFiles, to.TrustedCAFile)
		to.CertFile = e.fileOf(pattern, e.CertFiles, to.CertFile)
		to.KeyFile = e.fileOf(pattern, e.KeyFiles, to.KeyFile)
		return config, true
	}
	return storagebackend.Config{}, false
}

// fileOf returns the file for an entry of Servers: one that names it, or one for all.
func (e *GroupEtcds) fileOf(pattern string, files []string, without string) string {
	for _, entry := range files {
		if of, file := e.split(entry); of == pattern {
			return file
		} else if of == "" {
			without = file
		}
	}
	return without
}

// split returns which entry of Servers a file is for. The path of a file may have an equals sign, too.
func (e *GroupEtcds) split(entry string) (pattern, file string) {
	pattern, file, found := strings.Cut(entry, "=")
	for _, servers := range e.Servers {
		if found && strings.HasPrefix(servers, pattern+"=") {
			return pattern, file
		}
	}
	return "", entry
}

func (e *GroupEtcds) validate() []error {
	var errs []error
	wrong := func(flag string, err error) { errs = append(errs, fmt.Errorf("--%s: %w", flag, err)) }
	if len(e.Servers) == 0 && len(e.CAFiles)+len(e.CertFiles)+len(e.KeyFiles) > 0 {
		wrong(groupEtcdServersFlag, errors.New("required for the files of its etcds"))
	}
	var patterns []string
	for _, entry := range e.Servers {
		pattern, servers, _ := strings.Cut(entry, "=")
		if servers == "" {
			wrong(groupEtcdServersFlag, fmt.Errorf("%q is not of the form GROUP=URL[,URL...]", entry))
			continue
		}
		if err := partitions.ValidateGroups([]string{pattern}); err != nil {
			wrong(groupEtcdServersFlag, err)
		} else if other, _, ok := partitions.Overlap(patterns, []string{pattern}); ok {
			wrong(groupEtcdServersFlag, fmt.Errorf("%s and %s have groups in common", other, pattern))
		} else {
			patterns = append(patterns, pattern)
		}
		for server := range strings.SplitSeq(servers, ",") {
			if u, err := url.Parse(server); err != nil || u.Host == "" {
				wrong(groupEtcdServersFlag, fmt.Errorf("%q is not a URL such as https://127.0.0.1:2379", server))
			}
		}
	}
	return errs
}
