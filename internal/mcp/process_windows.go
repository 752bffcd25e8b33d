package mcp

import (
	"os"
	"os/exec"
)

// Windows has no process groups of this kind: what the server starts is its own
// business, and there is no asking before ending.

func isolate(*exec.Cmd) {}

func terminate(p *os.Process) { p.Kill() }

func kill(p *os.Process) { p.Kill() }
