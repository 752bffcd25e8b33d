//go:build unix

package mcp

import (
	"os"
	"os/exec"
	"syscall"
)

// isolate gives the child a process group of its own, so that what it starts can
// be ended with it and a Ctrl-C at this process does not reach it first.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func terminate(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGTERM) }

func kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }
