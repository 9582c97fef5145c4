// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdversion

import (
	"strings"
	"testing"
)

func TestOnlyFixedVersionsKeepUsersToTheirKeys(t *testing.T) {
	for version, want := range map[string]string{
		"3.4.44": "upgrade it to 3.5.33", "3.5.0": "upgrade it to 3.5.33", "3.5.32": "upgrade it to 3.5.33",
		"3.6.0": "upgrade it to 3.6.14", "3.6.8": "upgrade it to 3.6.14", "3.6.13": "upgrade it to 3.6.14", "3.6.14-rc.0": "upgrade it to 3.6.14",
		"3.7.0": "upgrade it to 3.7.1", "3.7.0-alpha.0": "upgrade it to 3.7.1", "2.3.8": "upgrade it to 3.5.33",
		"": "which is none", "latest": "which is none", "3.6": "which is none",
		"3.5.33": "", "3.5.40": "", "3.6.14": "", "3.6.16": "", "3.6.16+vendor": "", "3.7.1": "", "3.8.0-alpha.0": "", "4.0.0": "",
	} {
		err := CheckRanges(version)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
}
