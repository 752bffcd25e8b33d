//go:build unix

package claude

import (
	"os"
	"os/exec"
	"syscall"
)

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals the group that p leads. The group's id stays reserved as
// long as it has members, so this is safe after p itself has ended.
func signalGroup(p *os.Process, sig os.Signal) error {
	return syscall.Kill(-p.Pid, sig.(syscall.Signal))
}

var terminate os.Signal = syscall.SIGTERM
