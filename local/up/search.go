// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"path/filepath"

	"github.com/tripod-k8s/tripod/local/names"
	"github.com/tripod-k8s/tripod/local/replicas"
)

// isSearch returns whether a service is the search of --search, which completeSearch adds to the further API services.
func (o *Options) isSearch(name string) bool { return o.Search && name == names.Search }

// completeSearch makes search one of the further API services.
func (o *Options) completeSearch() error {
	if !o.Search {
		return nil
	}
	program, err := replicas.Binary("tripod-" + names.Search)
	if err != nil {
		return err
	}
	database := "database=" + o.SearchDatabase
	switch {
	case o.SearchDatabaseFile != "":
		database = "database-file=" + o.SearchDatabaseFile
	case o.SearchDatabase == "":
		database = "database=sqlite:" + filepath.Join(o.DataDir, "search.db")
	}
	o.Services = append(o.Services, names.Search+"="+program)
	// The user's own flags come later, and so have precedence.
	// Other clusters of this machine are at addresses of this machine.
	o.ServiceArgs = append([]string{names.Search + "=--" + database, names.Search + "=--member-allow=loopback"}, o.ServiceArgs...)
	_, err = o.furtherServices() // --service may have used the name
	return err
}
