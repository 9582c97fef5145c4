// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// subject is what the path of a request is about.
type subject struct {
	// local is whether each service has its own, as of /version.
	local bool
	// document is whether it is the list of all groups, or of all OpenAPI documents.
	document, openAPI bool
	// versioned is whether it is about a group-version: a resource, or what describes the group-version.
	versioned    bool
	groupVersion schema.GroupVersion
}

// parse returns the request of a path.
func parse(path string) subject {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "openapi":
		if len(parts) <= 2 { // all versions in one
			return subject{document: true, openAPI: true}
		}
		is := parseAPI(parts[2:])
		is.openAPI = true
		return is
	default:
		return parseAPI(parts)
	}
}

func parseAPI(parts []string) subject {
	switch {
	case parts[0] == "api":
		return subject{versioned: true, groupVersion: schema.GroupVersion{Version: "v1"}}
	case parts[0] != "apis":
		return subject{local: true}
	case len(parts) == 1:
		return subject{document: true}
	case len(parts) == 2:
		// A group may be of several servers.
		return subject{}
	default:
		return subject{versioned: true, groupVersion: schema.GroupVersion{Group: parts[1], Version: parts[2]}}
	}
}
