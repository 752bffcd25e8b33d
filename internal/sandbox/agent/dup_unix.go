//go:build unix && !linux

package agent

import "syscall"

// dup makes to the same file as from.
func dup(from, to int) error { return syscall.Dup2(from, to) }
