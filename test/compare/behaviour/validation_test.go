// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestFieldValidationFollowsTheParameter(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		for _, test := range []struct {
			validation      string
			code            int
			wantWarning     bool
			wantInTheAnswer bool
		}{
			{"Strict", http.StatusBadRequest, false, true},
			{"Warn", http.StatusCreated, true, false},
			{"", http.StatusCreated, true, false},
			{"Ignore", http.StatusCreated, false, false},
		} {
			t.Run("validation="+test.validation, func(t *testing.T) {
				object := r.object("a"+strings.ToLower(test.validation), "red")
				object.Object["bogus"] = "x"
				body, err := object.MarshalJSON()
				path := r.path(namespace)
				if test.validation != "" {
					path += "?fieldValidation=" + test.validation
				}
				require.NoError(t, err)
				resp := request(t, cluster.Admin(), http.MethodPost, path, map[string][]string{"Content-Type": {"application/json"}}, body)
				assert.Equal(t, test.code, resp.Code, "got %d: %s", resp.Code, resp.Body)
				if got := strings.Contains(strings.Join(resp.Header.Values("Warning"), ""), `unknown field \"bogus\"`); got != test.wantWarning {
					t.Errorf("warnings: %q", resp.Header.Values("Warning"))
				}
				if got := strings.Contains(string(resp.Body), `unknown field \"bogus\"`); got != test.wantInTheAnswer {
					t.Errorf("answer: %s", resp.Body)
				}
			})
		}
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	forCoreAndCustom(t, func(t *testing.T, r resource, namespace string) {
		ctx, client := t.Context(), r.in(t, namespace)
		dry := []string{metav1.DryRunAll}
		created, err := client.Create(ctx, r.object("a", "red"), metav1.CreateOptions{DryRun: dry})
		require.NoError(t, err)
		if created.GetUID() == "" {
			t.Error("a dry run does not show what would be created")
		}
		if _, err := client.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("after a dry run of create: %v", err)
		}
		create(t, client, r.object("a", "red"))
		patched, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"color":"blue"}}`), metav1.PatchOptions{DryRun: dry})
		require.NoError(t, err)
		assert.Equal(t, "blue", color(patched), "a dry run of patch answers")
		assert.NoError(t, client.Delete(ctx, "a", metav1.DeleteOptions{DryRun: dry}))
		read, err := client.Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "red", color(read), "after a dry run of patch and delete")
	})
}

func TestBuiltInValidationRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	client := kubeClient(t, cluster.Admin()).CoreV1().Services(createNamespace(t))
	_, err := client.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "Not_A_Name"}}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || len(err.(apierrors.APIStatus).Status().Details.Causes) < 2 {
		t.Errorf("got %v", err)
	}
}
