// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestBoundsOfFields has values of a field in JSON, and which of some bounds they meet.
func TestBoundsOfFields(t *testing.T) {
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(`"` + time.RFC3339 + `"`) }
	for _, test := range []struct {
		value      string
		meets, not []string
	}{
		{`3`, []string{"a>2", "a >= 3", "a<=3", "a<4", "a>500m", "a<1Ki", "a|b>2", "a>2,a<4"}, []string{"a>3", "a<3", "a>=3001m", "a>2025-01-01", "a<now", "a>2,a>3"}},
		{`"2Gi"`, []string{"a>1Gi", "a>=2048Mi", "a<2147483649", "a>2G"}, []string{"a>2Gi", "a<2Gi", "a>now-7d"}},
		{`"500m"`, []string{"a>=0.5", "a<=0.5", "a<1"}, []string{"a>0.5"}},
		{`-1.5e3`, []string{"a<-1499", "a<0", "a>-1501"}, []string{"a>0"}},
		{`"2026-11-25T04:00:00Z"`, []string{"a>2026-11-25", "a>=2026-11-25T05:00:00+01:00", "a<2026-11-25 04:00:01", "a<2026-11-25T04:00:00.5Z"}, []string{"a>2026-11-25T04:00:00Z", "a>2025", "a<9e9"}},
		{`"2026-11-25T04:00:00.500000Z"`, []string{"a>=2026-11-25T04:00:00.5Z", "a<=2026-11-25T04:00:00.5Z", "a>2026-11-25T04:00:00.49Z"}, []string{"a>2026-11-25T04:00:00.5Z"}},
		{at(48 * time.Hour), []string{"a<now-1d", "a>now-3d", "a<now", "a<now-1d1h", "a>now-72h30m", "a<now+1d"}, []string{"a>now-1d", "a<now-3d"}},
		{at(-48 * time.Hour), []string{"a>now", "a<now+3d"}, []string{"a<now+1d12h"}},
		{`"NaN"`, nil, []string{"a>0", "a<0", "a<now"}},
		{`"inf"`, nil, []string{"a>0", "a<0"}},
		{`1e999`, nil, []string{"a>0", "a<0"}},
		{`"1e999"`, nil, []string{"a>0", "a<0"}},
		{`""`, nil, []string{"a>0", "a<0", "a>=0", "a<=0", "a<now"}},
		{`null`, nil, []string{"a>0", "a<0", "a>=0", "a<=0", "a<now", "b<1"}},
		{`true`, nil, []string{"a>0", "a<2"}},
		{`{"b":1}`, []string{"a.b>0"}, []string{"a>0", "a<2", "a.b>1"}},
		{`[1,"x",5]`, []string{"a[]>4", "a[]<2", "a[2]>=5"}, []string{"a>0", "a[]>5", "a[1]>0", "a[]<1"}},
		{`"2026-11-25"`, nil, []string{"a>2026-11-24", "a<now"}},
	} {
		object := fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "a": %s}`, test.value)
		for want, texts := range map[bool][]string{true: test.meets, false: test.not} {
			for _, text := range texts {
				fields, err := ParseFields(text)
				require.NoError(t, err, text)
				assert.Equal(t, want, (&Query{Fields: fields}).Matches(&Subject{JSON: object}), "%s of %s", text, test.value)
			}
		}
	}
}

func TestBoundsThatAreNone(t *testing.T) {
	for _, text := range []string{
		"", "x", "NaN", "Inf", "-inf", "1e999", "1E400", "0x10", "+5", "1_000", "5 5", "5Mib", "true", "{}", strings.Repeat("9", 31), "now-", "now-d", "now-7", "now--7d", "now-7d-1h", "now-36501d", "now-9999999999999h", "now7d",
		"yesterday", "2026-13-01", "2026-02-30", "2026-11-25T25:00:00Z", "25/11/2026", "10000-01-01", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "\x00",
	} {
		_, err := ParseFields("a>" + text)
		assert.ErrorContains(t, err, "is neither a number such as 3, 500m or 2Gi nor a time such as", text)
	}
	for text, want := range map[string]string{"a>b=c": "unescaped", "!a>5": "expected a comma, contains", "a><5": "is neither", "a > in (5)": "is neither", `a>\`: "invalid escape"} {
		_, err := ParseFields(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// TestBoundsAreAboutWhatAnObjectHas holds of labels that Kubernetes computes: it cannot compare them.
func TestBoundsAreAboutWhatAnObjectHas(t *testing.T) {
	fields, err := ParseFields("status.successful<1")
	require.NoError(t, err)
	assert.Empty(t, fields[0].ComputedKinds())
	assert.Equal(t, [][]Condition{{{Path: steps("status", "successful"), Bound: fields[0].Bound}}}, fields[0].Alternatives(schema.GroupKind{Group: "batch", Kind: "Job"}))
}
