//go:build tools

// Package tools names what the lab builds of Helm, so that go.mod and go.sum hold all of it.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
