{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The HorizontalPodAutoscaler of a service: dict root, component, name, autoscaling. */ -}}
{{- define "tripod.autoscaler" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "tripod.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "tripod.fullname" .root }}-{{ .component }}
  {{- with .autoscaling }}
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  metrics:
    {{- with .averageCPU }}
    - type: Resource
      resource:
        name: cpu
        target:
          type: AverageValue
          averageValue: {{ . | quote }}
    {{- end }}
    {{- with .averageMemory }}
    - type: Resource
      resource:
        name: memory
        target:
          type: AverageValue
          averageValue: {{ . | quote }}
    {{- end }}
    {{- with .metrics }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}
