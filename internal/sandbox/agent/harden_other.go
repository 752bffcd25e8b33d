//go:build !linux

package agent

// harden does nothing where the system has no such protection.
func harden() {}
