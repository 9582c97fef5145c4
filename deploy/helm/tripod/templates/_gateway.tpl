{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The host of the API behind a Gateway. It is empty without a route. */ -}}
{{- define "tripod.gateway.host" -}}
{{- if .Values.gateway.parentRefs -}}
{{- default (include "tripod.endpoint.host" (default "" .Values.join.endpoint)) .Values.gateway.host -}}
{{- end -}}
{{- end -}}

{{- /* A TLSRoute: dict root, component, name, host, from (the values with the host), parentRefs, port. Its Service has its name. */ -}}
{{- define "tripod.gateway.route" -}}
{{- if not .host -}}
{{- fail (printf "%s is needed for a TLSRoute: a Gateway finds Tripod by the host that clients name" .from) -}}
{{- end -}}
{{- if regexMatch "^[0-9.]+$|:" .host -}}
{{- fail (printf "%s is %s, but the host of a TLSRoute must be a name: clients name no address in TLS" .from .host) -}}
{{- end -}}
apiVersion: gateway.networking.k8s.io/{{ .root.Values.gateway.apiVersion }}
kind: TLSRoute
metadata:
  {{- include "tripod.metadata" (merge (dict "annotations" .root.Values.gateway.annotations) .) | nindent 2 }}
spec:
  parentRefs:
    {{- toYaml .parentRefs | nindent 4 }}
  hostnames:
    - {{ .host }}
  rules:
    - backendRefs:
        - name: {{ include "tripod.fullname" .root }}{{ with .name }}-{{ . }}{{ end }}
          port: {{ .port }}
{{- end -}}
