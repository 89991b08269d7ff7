{{- define "publication-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" }}
{{- end }}

{{- define "publication-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" }}
{{- else if contains (include "publication-operator.name" .) .Release.Name }}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "publication-operator.name" .) | trunc 53 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "publication-operator.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "publication-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "publication-operator.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "publication-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "publication-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "publication-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "publication-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "publication-operator.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Reading by name: what a PublicationCluster refers to is fetched when needed, never listed or watched. */}}
{{- define "publication-operator.secretRules" -}}
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [get]
{{- end }}

{{/* Service in front of /metrics; a ServiceMonitor makes it the label job. */}}
{{- define "publication-operator.metricsName" -}}
{{- printf "%s-metrics" (include "publication-operator.fullname" .) }}
{{- end }}

{{/* Of an alert: list of where docs/ is served (or nothing) and the page. */}}
{{- define "publication-operator.runbook" -}}
{{- if index . 0 -}}
runbook_url: {{ join "/" . }}
{{- else -}}
runbook: docs/{{ index . 1 }}
{{- end }}
{{- end }}

{{/* Labels that add a persona to a role of Kubernetes: "view", "edit" or "admin". edit has what view has, admin what edit has. */}}
{{- define "publication-operator.aggregateTo" -}}
rbac.authorization.k8s.io/aggregate-to-{{ . }}: "true"
{{- end }}

{{/* What the schema cannot say in words. */}}
{{- define "publication-operator.validate" -}}
{{- $remedies := dict "LOG_FORMAT" "set log.format" "RUST_LOG" "set log.level" "POD_NAME" "leave it out" "POD_NAMESPACE" "leave it out" }}
{{- range $index, $variable := .Values.env }}
{{- with get $remedies $variable.name }}
{{- fail (printf "env[%d].name: the chart sets %s itself: %s" $index $variable.name .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Receipts are kept as ConfigMaps beside the PublicationCluster; which ones there are is in a ConfigMap too, so that
none is listed. */}}
{{- define "publication-operator.receiptRules" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, patch, delete]
{{- end }}
