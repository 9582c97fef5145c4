// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"math"
	"runtime/debug"

	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/search/hub"
	"github.com/tripod-k8s/tripod/services/search/member"
	"github.com/tripod-k8s/tripod/services/search/options"
	"github.com/tripod-k8s/tripod/services/search/rights"
	"github.com/tripod-k8s/tripod/services/search/templates"
	"github.com/tripod-k8s/tripod/services/search/watchcache"
)

// Budget is memory that a part of a replica takes at most, in bytes.
type Budget struct {
	Part  string
	Bytes int64
}

// processMemory is about what an idle replica takes, without the pages of its binary.
const processMemory = 80 << 20

// Budgets returns all of a replica. Everything that others make search keep counts for one of them.
func Budgets(o *options.Options) []Budget {
	all := []Budget{{"the process", processMemory}}
	if o.Has(options.Serve) {
		all = append(all,
			Budget{"answers (`--answer-memory`)", o.AnswerMemory},
			Budget{"changes for watches", watchcache.Memory},
			Budget{"RBAC objects of all clusters", rights.Memory},
			Budget{"rights of readers", rights.GrantsMemory},
		)
	}
	if o.Has(options.Sync) {
		all = append(all,
			Budget{"objects and documents of clusters (`--member-memory`)", o.Limits.Memory.Value()},
			Budget{"objects of clusters before that", member.SlotsMemory},
			Budget{"watches of clusters (`--member-watches`)", o.Limits.WatchesMemory()},
			Budget{"PediaClusters, policies and the like", hub.OwnMemory},
			Budget{"objects of the hub that these need", hub.OtherMemory},
			Budget{"watches of references of policies", hub.NamedMemory},
			Budget{"watches of Secrets of PediaClusters", hub.NamedMemory},
			Budget{"results of templates", templates.Memory},
			Budget{"a template (`--template-memory`), in a process beside", o.Templates.Memory},
		)
	}
	return all
}

// Sum returns the memory of budgets together.
func Sum(budgets []Budget) (bytes int64) {
	for _, b := range budgets {
		bytes += b.Bytes
	}
	return bytes
}

// warnOfMemory warns if the budgets are more than the limit of the process, which the garbage collector keeps as long as it can.
func warnOfMemory(o *options.Options) {
	if limit, sum := debug.SetMemoryLimit(-1), Sum(Budgets(o)); limit < sum && limit != math.MaxInt64 {
		klog.InfoS("Search may take more memory than GOMEMLIMIT: give it more, or lower --answer-memory and --member-memory",
			"limitMiB", limit>>20, "atMostMiB", sum>>20)
	}
}
