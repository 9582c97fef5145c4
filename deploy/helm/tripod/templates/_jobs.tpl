{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /*
A Job that is no hook: dict root, component, name (after the fullname), spec, input. A Job cannot change. So a hash of its spec, and of what its pod reads
elsewhere, ends its name: an upgrade that changes one of them runs it again, and any other leaves it. The number of the revision must have no part in
this: tools that render the chart, such as Argo CD, always see the first one.
*/ -}}
{{- define "tripod.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  {{- include "tripod.metadata" (merge (dict "name" (printf "%s-%s" .name (list .spec .input | toJson | sha256sum | trunc 8))) .) | nindent 2 }}
spec:
  {{- .spec | nindent 2 }}
{{- end -}}
