//go:build tools

// Package tools names what the lab builds from etcd's own modules, so that go.mod and go.sum hold all of it.
package tools

import _ "go.etcd.io/etcd/server/v3"
