{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- define "tripod.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The names of all objects begin with this. Names of pods of etcd and of Jobs are up to 23 characters longer. */ -}}
{{- define "tripod.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "tripod.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tripod.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The host of the Service of the aggregator. */ -}}
{{- define "tripod.host" -}}
{{ include "tripod.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "tripod.tag" -}}
{{- default .Chart.AppVersion .Values.image.tag -}}
{{- end -}}

{{- /* An image of Tripod: dict root, name. */ -}}
{{- define "tripod.image" -}}
{{- include "tripod.reference" (include "tripod.image.values" . | fromJson) -}}
{{- end -}}

{{- /* The values of an image of Tripod, as JSON: dict root, name. */ -}}
{{- define "tripod.image.values" -}}
{{- with .root.Values.image -}}
{{- $repository := ternary (printf "%s/%s" .repository $.name) $.name (not (empty .repository)) -}}
{{- dict "registry" .registry "repository" $repository "tag" (get (default dict .tags) $.name | default (include "tripod.tag" $.root)) "digest" (get (default dict .digests) $.name) "pullPolicy" .pullPolicy | toJson -}}
{{- end -}}
{{- end -}}

{{- /* The name of an image: its values. If a digest is there, the tag is only for readers. */ -}}
{{- define "tripod.reference" -}}
{{ with .registry }}{{ . }}/{{ end }}{{ .repository }}:{{ .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}

{{- define "tripod.selector" -}}
app.kubernetes.io/name: {{ include "tripod.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- /* Labels of an object: dict root, component. */ -}}
{{- define "tripod.labels" -}}
{{ include "tripod.selector" . }}
app.kubernetes.io/part-of: tripod
app.kubernetes.io/version: {{ include "tripod.tag" .root | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Labels of pods, without those that change with each version of the chart, because these would restart all pods. */ -}}
{{- define "tripod.podLabels" -}}
{{ include "tripod.selector" . }}
app.kubernetes.io/part-of: tripod
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The metadata of an object: dict root, name (after the fullname), component, annotations. */ -}}
{{- define "tripod.metadata" -}}
name: {{ include "tripod.fullname" .root }}{{ with .name }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
{{- with merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- /* These come last, so that a template can add some. */}}
labels:
  {{- include "tripod.labels" . | nindent 2 }}
{{- end -}}
