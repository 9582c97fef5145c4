{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /*
A Job that is no hook: dict root, component, name (after the fullname), spec, input. A Job cannot change. So a hash of its spec, and of what its pod reads
elsewhere, ends its name. The number of the revision is in it, too: each upgrade by Helm runs the Job again, also if it failed, or if etcd has lost what it
did. Tools that render the chart, such as Argo CD, always see the first revision, and so run it again if its content changes.
*/ -}}
{{- define "tripod.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "tripod.metadata" (merge (dict "name" (printf "%s-%s" .name (list .spec .input .root.Release.Revision | toJson | sha256sum | trunc 8))) .) | nindent 2 }}
spec:
  {{- .spec | nindent 2 }}
{{- end -}}
