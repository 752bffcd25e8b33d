package claude

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// findExecutable returns the claude binary to start: what the caller named,
// else the one in PATH, else one in a place that installers use.
func findExecutable(named, dir, home string) (string, error) {
	if named != "" {
		if _, err := exec.LookPath(named); err != nil {
			return "", fmt.Errorf("%w: Options.Executable: %w", ErrNotInstalled, err)
		}
		return named, nil
	}
	if path, err := exec.LookPath("claude"); err == nil {
		return path, nil
	}
	for _, path := range executablePlaces(dir, home) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: install it with `npm install -g @anthropic-ai/claude-code`, "+
		"or set Options.Executable to its path", ErrNotInstalled)
}

func executablePlaces(dir, home string) []string {
	places := []string{
		filepath.Join(home, ".local", "bin", "claude"),
		filepath.Join(home, ".claude", "local", "claude"),
		"/usr/local/bin/claude",
		"/opt/homebrew/bin/claude",
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	platform := "claude-agent-sdk-" + runtime.GOOS + "-" + arch
	for {
		places = append(places, filepath.Join(dir, "node_modules", "@anthropic-ai", platform, "claude"))
		parent := filepath.Dir(dir)
		if parent == dir {
			return places
		}
		dir = parent
	}
}
