//go:build !unix

package shell

import (
	"os"
	"os/exec"
)

// ownGroup does nothing where there are no process groups.
func ownGroup(*exec.Cmd) {}

// KillGroup kills the process; there are no process groups here.
func KillGroup(group int) {
	if p, err := os.FindProcess(group); err == nil {
		_ = p.Kill()
	}
}

func code(p *os.ProcessState) int { return p.ExitCode() }
