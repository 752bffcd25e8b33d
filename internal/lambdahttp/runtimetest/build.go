package runtimetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build compiles a package as a function for this machine, with the tags and
// flags of the deployed one, and returns the binary, which goes with the test.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	bin, err := BuildIn(t.TempDir(), pkg)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// BuildIn is [Build] into a directory, for a binary that several tests use.
func BuildIn(dir, pkg string) (bin string, err error) {
	bin = filepath.Join(dir, "bootstrap")
	cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-s -w", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}
