// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tripod-k8s/tripod/base/hop/roundtrip"
)

// endless is a body that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAsk(t *testing.T) {
	broken := errors.New("broken")
	probe := Probe{
		Path: "/readyz", Sign: func(req *http.Request) { req.Header.Set("X-Sender", "me") },
		IsReady: func(status int) bool { return status == http.StatusOK },
	}
	for name, test := range map[string]struct {
		status int
		body   io.Reader
		err    error
		want   string
	}{
		"ready":                      {http.StatusOK, strings.NewReader("ok"), nil, ""},
		"ready, and goes on talking": {http.StatusOK, endless{}, nil, ""},
		"not ready":                  {http.StatusInternalServerError, endless{}, nil, "/readyz answers 500"},
		"no answer":                  {0, nil, broken, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			err := probe.Ask(t.Context(), roundtrip.Func(func(req *http.Request) (*http.Response, error) {
				assert.Equal(t, "GET https://10.0.0.1:6443/readyz me", req.Method+" "+req.URL.String()+" "+req.Header.Get("X-Sender"))
				if test.err != nil {
					return nil, test.err
				}
				return &http.Response{StatusCode: test.status, Status: "500", Body: io.NopCloser(test.body)}, nil
			}), "10.0.0.1:6443")
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.want)
			var unready *UnreadyError
			assert.Equal(t, test.err == nil, errors.As(err, &unready))
		})
	}
}

func TestParseChecks(t *testing.T) {
	const answer = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log excluded: ok\nwarn: something\n[-]\nreadyz check failed\n"
	assert.Equal(t, []Check{
		{"ping", true, "ok"}, {"etcd", false, "failed: reason withheld"}, {"log", true, "excluded: ok"}, {"", false, ""},
	}, ParseChecks(answer))
	assert.Empty(t, ParseChecks("ok"))
}

// FuzzParseChecks reads any output of a server. Each check, printed and read again, must stay the same.
func FuzzParseChecks(f *testing.F) {
	f.Add("[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")
	f.Add("[+]a excluded with b: ok\r\n[-]\n[+] \n[+]")
	f.Fuzz(func(t *testing.T, answer string) {
		for _, check := range ParseChecks(answer) {
			again := ParseChecks(check.String())
			require.Len(t, again, 1)
			require.Equal(t, check.Name, again[0].Name)
			require.Equal(t, check.Passes, again[0].Passes)
			require.Equal(t, check.Outcome, again[0].Outcome)
		}
	})
}
