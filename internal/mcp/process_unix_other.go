//go:build unix && !linux

package mcp

import "syscall"

// dieWithParent: only Linux has this. Elsewhere the child sees its input end.
func dieWithParent(*syscall.SysProcAttr) {}
