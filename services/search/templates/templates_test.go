// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) {
	InterpretIfAsked()
	os.Exit(m.Run())
}

// newTemplates returns Templates on whose clock a test turns.
func newTemplates(t *testing.T) (*Templates, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Now())
	made := New(Limits{Memory: 64 << 20, Time: 100 * time.Millisecond})
	made.now = clock.Now
	made.pauses, made.ownersPauses = flowcontrol.NewFakeBackOff(firstPause, lastPause, clock), flowcontrol.NewFakeBackOff(firstOwnersPause, lastOwnersPause, clock)
	t.Cleanup(made.Sweep)
	return made, clock
}

func TestWhatTemplatesMake(t *testing.T) {
	made, _ := newTemplates(t)
	data := map[string]any{"list": []any{"x", "y"}, "map": map[string]any{"b": "2", "a": "1"}, "number": int64(1) << 60, "text": "abc", "half": 0.5, "true": true}
	for text, want := range map[string]string{
		"{{range .list}}{{.}}{{end}}":                                                    "xy",
		"{{range $k, $v := .map}}{{$k}}={{$v}},{{end}}":                                  "a=1,b=2,",
		"{{range .nothing}}a{{else}}b{{end}}":                                            "b",
		"{{.number}} {{add .number 1}} {{.half}} {{.true}} [{{.nothing}}]":               "1152921504606846976 1152921504606846977 0.5 true []",
		"{{define \"one\"}}[{{.}}]{{end}}{{template \"one\" .text}}":                     "[abc]",
		"{{range splitList \",\" \"a,b\"}}{{.}};{{end}}{{range (list 1 2)}}{{.}}{{end}}": "a;b;12",
		"{{set .map \"a\" \"changed\" | toJson}}":                                        `{"a":"changed","b":"2"}`,
	} {
		got, err := made.Render(t.Context(), Owner{}, text, data)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	assert.Equal(t, "1", data["map"].(map[string]any)["a"], "a template changes only its own data")

	object, err := made.JSON(t.Context(), Owner{}, "a: {{.text | toJson}}\nb: [&x 1, *x]", data)
	require.NoError(t, err)
	assert.JSONEq(t, `{"a": "abc", "b": [1, 1]}`, object)
	_, err = made.JSON(t.Context(), Owner{}, "{", data)
	assert.ErrorContains(t, err, "it does not make YAML")
	_, err = made.Render(t.Context(), Owner{}, "{{fail .text}}", data)
	assert.ErrorContains(t, err, "abc")
	_, err = made.Render(t.Context(), Owner{}, strings.Repeat("x", maxText)+"y", data)
	assert.ErrorContains(t, err, "it makes more than 1 MiB")
	_, err = made.Render(t.Context(), Owner{}, "x", map[string]any{"large": strings.Repeat("x", maxTask)})
	assert.ErrorContains(t, err, "with its objects, it has more than 16 MiB")
	assert.Error(t, made.Check(t.Context(), Owner{}, "{{"))
	assert.NoError(t, made.Check(t.Context(), Owner{}, "{{.a}}"))
}

// TestATemplateSeesNothingButItsData calls each function that is not of its arguments alone.
func TestATemplateSeesNothingButItsData(t *testing.T) {
	made, _ := newTemplates(t)
	for _, call := range []string{
		`env "HOME"`, `expandenv "$HOME"`, `getHostByName "localhost"`, "now", `ago .`, `date "2006" .`, `htmlDate .`, "randInt 0 9", "randAlpha 3", "randBytes 3", "uuidv4",
		`genPrivateKey "rsa"`, `genCA "x" 1`, `htpasswd "a" "b"`, `bcrypt "x"`, `derivePassword 1 "long" "x" "y" "z"`, `encryptAES "k" "x"`, `buildCustomCert "" ""`, `shuffle "ab"`,
		`repeat 3 "x"`, "until 3", "untilStep 0 3 1", "seq 3",
	} {
		assert.ErrorContains(t, made.Check(t.Context(), Owner{}, "{{"+call+"}}"), "not defined", call)
	}
}

// TestATemplateThatTakesTooMuchIsStopped runs templates of a few bytes that would take gigabytes or hours.
func TestATemplateThatTakesTooMuchIsStopped(t *testing.T) {
	made, clock := newTemplates(t)
	doubled := strings.Repeat(`{{$x = print $x $x}}`, 25)
	list := make([]any, 2000)
	bomb := "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 20_000) + "]"
	for text, want := range map[string]string{
		`{{indent 1200000000 "x"}}`:                             "takes more than 64 MiB of memory",
		`{{$x := print "0123456789"}}` + doubled + doubled:      "takes more than",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`: "",
		strings.Repeat("{{if true}}", 300_000):                  "",
		"{{" + strings.Repeat("(", 1_000_000):                   "",
		bomb:                                                    "takes more than",
		"{{range .list}}{{range $.list}}{{range $.list}}{{end}}{{end}}{{end}}":                                         "takes more than 100ms of a processor",
		`{{define "a"}}{{if .}}{{template "a" (rest .)}}{{template "a" (rest .)}}{{end}}{{end}}{{template "a" .list}}`: "takes more than 100ms of a processor",
		"{{range 9999999999}}{{end}}": "takes more than 100ms of a processor",
	} {
		clock.Step(time.Hour)
		_, err := made.JSON(t.Context(), Owner{Policy: "p"}, text, map[string]any{"list": list})
		assert.ErrorContains(t, err, want, text[:min(len(text), 60)])
		clock.Step(time.Hour)
		got, err := made.Render(t.Context(), Owner{Policy: "p"}, "fine", map[string]any{"time": clock.Now().String()})
		assert.NoError(t, err, "the next one")
		assert.Equal(t, "fine", got)
	}
}

func TestAStoppedTemplateRunsAgainAfterLongerAndLongerPauses(t *testing.T) {
	made, clock := newTemplates(t)
	runs := func(owner Owner, text, data string) bool {
		before := made.pauses.Get(owner.Policy + " " + owner.Object)
		_, err := made.Render(t.Context(), owner, text, map[string]any{"data": data})
		return err == nil || made.pauses.Get(owner.Policy+" "+owner.Object) != before
	}
	const endless = "{{range 9999999999}}{{end}}"
	bad, good := Owner{"p", "bad"}, Owner{"p", "good"}
	require.True(t, runs(good, "fine", "1"))
	require.True(t, runs(bad, endless, "1"))
	assert.False(t, runs(bad, endless, "1"), "the same again")
	assert.False(t, runs(bad, endless, "2"), "new data of the same object")
	assert.False(t, runs(Owner{"p", "new"}, "fine", "2"), "an object that its policy did not have before")
	assert.True(t, runs(good, "fine", "1"), "it has been made before")
	assert.True(t, runs(Owner{"q", "bad"}, "fine", "3"), "another policy")
	clock.Step(firstOwnersPause)
	assert.True(t, runs(good, "fine", "4"))
	assert.False(t, runs(bad, endless, "5"))
	clock.Step(firstPause)
	assert.True(t, runs(bad, endless, "5"))
	clock.Step(firstPause)
	assert.False(t, runs(bad, endless, "5"))
	clock.Step(firstPause)
	assert.True(t, runs(bad, endless, "5"))
}

// TestASlowPolicyLeavesTheProcessorToOthers has templates that each take less than a template may, again and again.
func TestASlowPolicyLeavesTheProcessorToOthers(t *testing.T) {
	made, clock := newTemplates(t)
	made.atOnce = 50 * time.Millisecond
	made.limits.Time = 10 * time.Second
	list := make([]any, 1000)
	n := 0
	render := func(policy string) error {
		n++
		_, err := made.Render(t.Context(), Owner{Policy: policy, Object: fmt.Sprint(n)}, "{{range .list}}{{range $.list}}{{end}}{{end}}{{.n}}", map[string]any{"list": list, "n": n})
		return err
	}
	spend := func() (runs int) {
		for ; render("slow") == nil; runs++ {
			require.Less(t, runs, 1000)
		}
		return runs
	}
	assert.Positive(t, spend())
	require.ErrorIs(t, render("slow"), errSpent)
	require.NoError(t, render("other"))
	require.NoError(t, made.Check(t.Context(), Owner{Policy: "slow"}, "{{.new}}"))
	made.Sweep()
	require.ErrorIs(t, render("slow"), errSpent, "the next pass is not too late")
	clock.Step(time.Hour)
	assert.Positive(t, spend())
	clock.Step(time.Hour)
	made.Sweep()
	assert.Empty(t, made.budgets)

	_, err := made.Render(t.Context(), Owner{Policy: "kept"}, "{{.a}}", map[string]any{"a": "1"})
	require.NoError(t, err)
	made.budgetOf("kept").left = 0
	_, err = made.Render(t.Context(), Owner{Policy: "kept"}, "{{.a}}", map[string]any{"a": "1"})
	assert.NoError(t, err, "what was made before costs nothing")
}

func TestResultsAreKeptWhileTheyAreUsed(t *testing.T) {
	made, _ := newTemplates(t)
	render := func() {
		_, err := made.Render(t.Context(), Owner{}, "{{.a}}", map[string]any{"a": "1", "b": "2"})
		require.NoError(t, err)
	}
	render()
	require.NotNil(t, made.process)
	made.Sweep()
	assert.Nil(t, made.process)
	render()
	assert.Nil(t, made.process, "it runs nothing that it has made")
	made.Sweep()
	made.Sweep()
	assert.Empty(t, made.made)
	assert.Zero(t, made.kept)
}

func TestTheEndOfTheProgramEndsATemplate(t *testing.T) {
	made := New(Limits{Memory: 64 << 20, Time: 10 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := made.Render(ctx, Owner{}, "{{range 9999999999}}{{end}}", nil)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}
