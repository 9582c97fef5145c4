// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"path/filepath"

	"github.com/tripod-k8s/tripod/local/replicas"
	"github.com/tripod-k8s/tripod/services/list"
)

// ownArgs are the flags that optional services need on this machine besides those of every API service.
var ownArgs = map[string]func(*Options) []string{list.Search: (*Options).searchArgs}

// completeOptional makes the optional services that the options ask for additional API services.
func (o *Options) completeOptional() error {
	for _, name := range list.OptionalNames() {
		if !o.Optional[name] {
			continue
		}
		program, err := replicas.Binary(list.Program(name))
		if err != nil {
			return err
		}
		o.Services = append(o.Services, name+"="+program)
		if _, err := o.additionalPrograms(); err != nil { // --service has used the name
			return err
		}
		if own := ownArgs[name]; own != nil {
			var args []string
			for _, arg := range own(o) {
				args = append(args, name+"="+arg)
			}
			// The user's own flags come later, and so have precedence.
			o.ServiceArgs = append(args, o.ServiceArgs...)
		}
	}
	return nil
}

// searchArgs returns the flags of search.
func (o *Options) searchArgs() []string {
	database := "--database=" + o.SearchDatabase
	switch {
	case o.SearchDatabaseFile != "":
		database = "--database-file=" + o.SearchDatabaseFile
	case o.SearchDatabase == "":
		database = "--database=sqlite:" + filepath.Join(o.DataDir, "search.db")
	}
	// Other clusters of this machine are at addresses of this machine.
	return []string{database, "--member-allow=loopback"}
}
