{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* Where snapshots are: the directory in pods, or the folder in a bucket. Releases that share a bucket must not remove the snapshots of one another. */ -}}
{{- define "tripod.snapshots.directory" -}}
{{- $s3 := .Values.etcd.snapshots.s3 -}}
{{- if $s3.bucket -}}
s3://{{ $s3.bucket }}/{{ $s3.prefix | default (printf "%s/%s" .Release.Namespace (include "tripod.fullname" .)) | trimAll "/" }}
{{- else -}}
/snapshots
{{- end -}}
{{- end -}}

{{- /* The snapshot that an etcd is to be restored from, as in the values, or nothing: dict root, name. */ -}}
{{- define "tripod.etcd.restoreSnapshot" -}}
{{- $restore := .root.Values.etcd.restore -}}
{{- $partition := include "tripod.partitions.ofEtcd" . -}}
{{- if $partition -}}
{{- default "" (include "tripod.values" (dict "root" .root "component" $partition) | fromJson).etcd.restoreSnapshot -}}
{{- else -}}
{{- ternary $restore.extensionsSnapshot $restore.snapshot (eq .name "etcd-extensions") -}}
{{- end -}}
{{- end -}}

{{- /* The location of this snapshot, or nothing: dict root, name. The value is a URL, or the name of a file. */ -}}
{{- define "tripod.etcd.restored" -}}
{{- with include "tripod.etcd.restoreSnapshot" . -}}
{{- if hasPrefix "s3://" . }}{{ . }}{{ else }}{{ include "tripod.snapshots.directory" $.root }}/{{ . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* What a container needs for a bucket: flags, variables, mounts and volumes. No flag has a credential. */ -}}
{{- define "tripod.snapshots.bucketArgs" -}}
{{- with .Values.etcd.snapshots.s3 -}}
{{- with .endpoint }}
- --s3-endpoint={{ . }}
{{- end }}
{{- with .region }}
- --s3-region={{ . }}
{{- end }}
{{- if .caConfigMap }}
- --s3-cacert=/etc/tripod/s3/ca.crt
{{- end }}
{{- end -}}
{{- end -}}

{{- define "tripod.snapshots.bucketEnv" -}}
{{- with .Values.etcd.snapshots.s3.secret -}}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: AWS_ACCESS_KEY_ID}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: AWS_SECRET_ACCESS_KEY}
- name: AWS_SESSION_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: AWS_SESSION_TOKEN, optional: true}
{{- end -}}
{{- end -}}

{{- define "tripod.snapshots.bucketMounts" -}}
{{- if .Values.etcd.snapshots.s3.caConfigMap -}}
- {name: s3, mountPath: /etc/tripod/s3, readOnly: true}
{{- end -}}
{{- end -}}

{{- define "tripod.snapshots.bucketVolumes" -}}
{{- with .Values.etcd.snapshots.s3.caConfigMap -}}
- name: s3
  configMap:
    name: {{ . }}
    items: [{key: ca.crt, path: ca.crt}]
{{- end -}}
{{- end -}}

{{- /* The volume with the snapshots. */ -}}
{{- define "tripod.etcd.snapshots" -}}
{{- $snapshots := .root.Values.etcd.snapshots -}}
{{- if $snapshots.volume -}}
{{- toYaml $snapshots.volume -}}
{{- else if include "tripod.enabled" (dict "root" .root "path" "etcd.snapshots") -}}
persistentVolumeClaim:
  claimName: {{ include "tripod.fullname" .root }}-etcd-snapshots
{{- else -}}
{{- fail "etcd.restore needs to know where snapshots are: etcd.snapshots.volume, etcd.snapshots.s3, or etcd.snapshots.enabled for the claim of the chart" -}}
{{- end -}}
{{- end -}}
