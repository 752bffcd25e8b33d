package mcp

import "syscall"

// dieWithParent ends the child when this process is killed and cannot do it. (It
// is the starting thread whose end counts; the runtime keeps its threads, and
// nothing here locks a goroutine to one.)
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
