// Command sandboxd is the process inside a sandbox that runs what its server
// orders, see package agent. In a task it finds what it needs to begin in one
// environment variable, and starts itself anew without it: what commands, or
// /proc, can see of its environment holds no code and no address. As the first
// process of a container it is the init process too.
package main

import (
	"fmt"
	"os"

	"github.com/lambae/lambae/internal/sandbox/agent"
)

// bootVariable is that of package fargate, which must not be linked in here.
const bootVariable = "LAMBAE_BOOT"

func main() {
	if boot, ok := os.LookupEnv(bootVariable); ok {
		fail(agent.Reboot(boot, bootVariable))
	}
	if os.Getpid() == 1 {
		self, err := os.Executable()
		fail(err)
		code, err := agent.Init([]string{self})
		fail(err)
		os.Exit(code)
	}
	os.Exit(agent.Main(os.Stdin, os.Stderr, os.Environ()))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd:", err)
		os.Exit(1)
	}
}
