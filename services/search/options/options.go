// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options has the flags of search.
package options

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/services/search/apis/cluster/v1alpha2"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/pediaclusters"
	"github.com/tripod-k8s/tripod/services/search/policies"
	"github.com/tripod-k8s/tripod/services/search/store/database"
	"github.com/tripod-k8s/tripod/services/search/templates"
)

// Role is something that a replica does.
type Role string

// The roles of a replica.
const (
	// Serve is to answer. A replica that does nothing else copies nothing.
	Serve Role = "serve"
	// Sync is to copy clusters.
	Sync Role = "sync"
)

// StandardAnswerMemory is the memory of all answers in a process with 512 MiB.
const StandardAnswerMemory = int64(96 << 20)

const (
	// minAnswerMemory has room for the largest object as a table.
	minAnswerMemory = 48 << 20
	// minHistoryTTL is how often watches get bookmarks.
	minHistoryTTL = time.Minute
	// minEventsTTL leaves time to read an event before search deletes it.
	minEventsTTL = time.Minute
)

// Options are the flags of search besides those that every API service has.
type Options struct {
	// Database is where objects are kept, and DatabaseFile a file that has it.
	Database, DatabaseFile string
	// Roles are what the replica does.
	Roles []string
	// Members says which clusters are copied.
	Members pediaclusters.Options
	// Limits are what search takes from a cluster.
	Limits member.Limits
	// Templates are the limits of templates of policies.
	Templates templates.Limits
	// ImportMaxClusters is how many PediaClusters a policy makes of the sources in a namespace.
	ImportMaxClusters int
	// EventsTTL is how long events of objects are kept, and HistoryTTL how long changes are.
	EventsTTL, HistoryTTL time.Duration
	// AnswerMemory is the memory in bytes for answers that are put together at the same time.
	AnswerMemory int64
}

// New returns the defaults.
func New() *Options {
	return &Options{
		Roles:   []string{string(Serve), string(Sync)},
		Members: pediaclusters.Options{Hub: "hub", HubRights: true, SecretNamespace: v1alpha2.StandardSecretNamespace},
		Limits:  member.Standard(), Templates: templates.Standard,
		ImportMaxClusters: policies.StandardMost,
		EventsTTL:         24 * time.Hour, HistoryTTL: 10 * time.Minute, AnswerMemory: StandardAnswerMemory,
	}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Database, "database", o.Database,
		"Where the objects are kept: sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE, or mysql://USER:PASSWORD@HOST/DATABASE for "+
			"MariaDB.")
	fs.StringVar(&o.DatabaseFile, "database-file", o.DatabaseFile,
		"File with the value of --database, which keeps a password out of the list of processes.")
	fs.StringSliceVar(&o.Roles, "roles", o.Roles,
		"What this replica does: serve answers searches, sync copies clusters. Replicas of both share a database, and each can be scaled alone.")
	fs.StringVar(&o.Members.Hub, "hub-cluster", o.Members.Hub, "Name of the cluster that this service is part of. Its objects are copied, "+
		"too. Empty copies none of them.")
	fs.BoolVar(&o.Members.HubRights, "hub-rights", o.Members.HubRights,
		"Show readers what they may read in the hub cluster itself by its RBAC. Turn it off if another authorizer denies what RBAC allows.")
	fs.DurationVar(&o.EventsTTL, "events-ttl", o.EventsTTL, "How long events about objects are kept that PediaClusters name in "+
		"eventsInvolvedResources.")
	fs.DurationVar(&o.HistoryTTL, "history-ttl", o.HistoryTTL,
		"How long changes of objects are kept. A watch can go on where it was as far as these go.")
	fs.StringVar(&o.Members.SecretNamespace, "secret-namespace", o.Members.SecretNamespace,
		"Namespace of the Secrets that PediaClusters may name in authenticationFrom. The command tripod search "+
			"clusters add makes them there, and lets search read each. Empty reads no Secrets.")
	fs.Int64Var(&o.AnswerMemory, "answer-memory", o.AnswerMemory,
		"Memory in bytes for the answers that are put together at once. A user gets half of it at most, and no more than is still free. Others "+
			"wait, and are refused with 429 after some seconds.")
	o.Limits.AddFlags(fs)
	fs.Int64Var(&o.Templates.Memory, "template-memory", o.Templates.Memory,
		"How many bytes of memory a template of a ClusterImportPolicy may take. It runs in a process of its own.")
	fs.DurationVar(&o.Templates.Time, "template-time", o.Templates.Time,
		"How long a template of a ClusterImportPolicy may run on a processor.")
	fs.IntVar(&o.ImportMaxClusters, "import-max-clusters", o.ImportMaxClusters,
		"PediaClusters that search makes of the sources of a ClusterImportPolicy in a namespace. It makes none of more sources.")
}

// Validate returns everything that is wrong with the values of the flags.
func (o *Options) Validate() error {
	errs := []error{validateRoles(o.Roles), o.Limits.Validate(), o.Templates.Validate()}
	if o.AnswerMemory < minAnswerMemory {
		errs = append(errs, fmt.Errorf("--answer-memory must be at least 48Mi: %d", minAnswerMemory))
	}
	if o.ImportMaxClusters < 1 {
		errs = append(errs, errors.New("--import-max-clusters must be at least 1"))
	}
	if o.HistoryTTL < minHistoryTTL {
		errs = append(errs, errors.New("--history-ttl must be at least 1m: watches get a bookmark each minute"))
	}
	if o.EventsTTL < minEventsTTL {
		errs = append(errs, errors.New("--events-ttl must be at least 1m: search deletes older events"))
	}
	if hub := o.Members.Hub; hub != "" && len(validation.IsDNS1123Subdomain(hub)) > 0 {
		errs = append(errs, fmt.Errorf("--hub-cluster: %q is no name of a cluster: use lower case letters, digits, - and .", hub))
	}
	if namespace := o.Members.SecretNamespace; namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		errs = append(errs, fmt.Errorf("--secret-namespace: %q is no name of a namespace", namespace))
	}
	return errors.Join(append(errs, o.validateDatabase())...)
}

// validateDatabase returns what is wrong with --database or --database-file, without a connection.
func (o *Options) validateDatabase() error {
	location, err := o.Location()
	if err != nil {
		return err
	}
	if err = database.Validate(location); err == nil {
		return nil
	}
	if o.DatabaseFile != "" {
		return fmt.Errorf("--database-file: %w", err)
	}
	return fmt.Errorf("--database: %w", err)
}

func validateRoles(roles []string) error {
	for _, role := range roles {
		if Role(role) != Serve && Role(role) != Sync {
			return fmt.Errorf("--roles: %q is neither %s nor %s", role, Serve, Sync)
		}
	}
	if len(roles) == 0 {
		return fmt.Errorf("--roles must name %s, %s or both", Serve, Sync)
	}
	return nil
}

// Has reports whether the replica has a role.
func (o *Options) Has(role Role) bool { return slices.Contains(o.Roles, string(role)) }

// Location returns where the database is.
func (o *Options) Location() (string, error) {
	if o.DatabaseFile == "" {
		return o.Database, nil
	}
	if o.Database != "" {
		return "", errors.New("--database-file takes the place of --database")
	}
	data, err := os.ReadFile(o.DatabaseFile)
	if err != nil {
		return "", fmt.Errorf("--database-file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
