{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* What all pods have in common: dict root, account. */ -}}
{{- define "tripod.pod.common" -}}
serviceAccountName: {{ include "tripod.fullname" .root }}-{{ .account }}
automountServiceAccountToken: {{ default false .token }}
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "tripod.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Scheduling of pods: dict root, component, values. */ -}}
{{- define "tripod.pod.scheduling" -}}
{{- with .values.priorityClassName | default (ternary (include "tripod.fullname" .root) "" .root.Values.priorityClass.create) }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if kindIs "slice" .values.topologySpreadConstraints }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tripod.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /*
GOMEMLIMIT is a little less than the memory limit, so that the garbage collector works harder before the kernel kills the process. The
downward API cannot compute: it gives the limit in MiB, and that number with six zeros is 95 % of the limit in bytes. So it also follows
a LimitRange or a VerticalPodAutoscaler.
*/ -}}
{{- define "tripod.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- if dig "limits" "memory" "" .resources }}
- name: MEMORY_LIMIT_MIB
  valueFrom:
    resourceFieldRef:
      containerName: {{ .container }}
      resource: limits.memory
      divisor: 1Mi
- name: GOMEMLIMIT
  value: $(MEMORY_LIMIT_MIB)000000
{{- end }}
{{- with .goGC }}
- name: GOGC
  value: {{ . | quote }}
{{- end }}
{{- end -}}
