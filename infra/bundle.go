package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

// functionNames are the folders under functions/ that are deployed.
var functionNames = [...]string{"client", "admin", "stream", "websocket", "tasks"}

// agentName is the folder of what runs inside sandboxes.
const agentName = "sandboxd"

// Bundler makes the assets of functions: a static binary named bootstrap and the
// configuration. The Go tool is all it needs.
type Bundler struct {
	Module       string // folder of the main module
	Out          string // where bundles are put
	Architecture string // ARM64 or X86_64
	Config       string // path of the bae-config.toml
}

// Build compiles all functions in one go, so that they share what they import.
func (b *Bundler) Build() error {
	out, err := filepath.Abs(b.dir())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("bundle functions: %w", err)
	}
	binaries := filepath.Join(out, "bin") + string(filepath.Separator)
	args := []string{"build", "-tags", "lambda.norpc", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binaries}
	for _, name := range append(functionNames[:], agentName) {
		args = append(args, "./functions/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = b.Module
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+goArch(b.Architecture), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the functions: %w\n%s", err, output)
	}
	for _, name := range functionNames {
		if err := b.assemble(name, filepath.Join(binaries, name)); err != nil {
			return fmt.Errorf("bundle function %s: %w", name, err)
		}
	}
	return nil
}

// assemble puts a bundle together. Its content alone makes its hash, so that a
// deployment changes just the functions that differ.
func (b *Bundler) assemble(name, binary string) error {
	dir := filepath.Join(b.dir(), name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(binary, filepath.Join(dir, "bootstrap")); err != nil {
		return err
	}
	config, err := os.ReadFile(b.Config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bae-config.toml"), config, 0o644)
}

// Code is the asset of a function that was built.
func (b *Bundler) Code(name string) awslambda.Code {
	return awslambda.Code_FromAsset(str(filepath.Join(b.dir(), name)), nil)
}

// Agent is the path of sandboxd, for sandboxes of the functions' architecture.
func (b *Bundler) Agent() string { return filepath.Join(b.dir(), "bin", agentName) }

func (b *Bundler) dir() string { return filepath.Join(b.Out, b.Architecture) }

// goArch is Go's name of an architecture.
func goArch(architecture string) string {
	if architecture == X86_64 {
		return "amd64"
	}
	return architecture
}
