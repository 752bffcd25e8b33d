//go:build !unix

package claude

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func signalGroup(p *os.Process, sig os.Signal) error { return p.Signal(sig) }

// Windows has no SIGTERM; input that closes is the polite way there.
var terminate os.Signal = os.Kill
