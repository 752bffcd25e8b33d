package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func (a *app) versionCommand() *command {
	c := newCommand("version", "show the version of this program")
	c.run = func(context.Context, []string) error {
		_, err := fmt.Fprintf(a.stdout, "lambae %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	}
	return c
}

// version is what the Go tool recorded in the binary.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
