package claude

import (
	"os"
	"path/filepath"
	"strings"
)

// environ answers questions about a child's environment.
type environ []string

func (e environ) get(name string) string {
	for i := len(e) - 1; i >= 0; i-- { // the last one counts, as in os/exec
		if value, ok := strings.CutPrefix(e[i], name+"="); ok {
			return value
		}
	}
	return ""
}

func (e environ) home() string {
	if home := e.get("HOME"); home != "" {
		return home
	}
	home, _ := os.UserHomeDir()
	return home
}

// configDir is the folder claude keeps its state in, as the child will see it.
func (e environ) configDir() string {
	if dir := e.get("CLAUDE_CONFIG_DIR"); dir != "" {
		return filepath.Clean(dir)
	}
	return filepath.Join(e.home(), ".claude")
}

// stateFile is where claude keeps what it knows besides settings.
func (e environ) stateFile() string {
	if e.get("CLAUDE_CONFIG_DIR") != "" {
		return filepath.Join(e.configDir(), ".claude.json")
	}
	return filepath.Join(e.home(), ".claude.json")
}

// environment returns the child's environment for these options.
func (o *Options) environment() environ {
	if o == nil || o.Env == nil {
		return os.Environ()
	}
	return o.Env
}

// workDir is the session's directory as an absolute path.
func (o *Options) workDir() (string, error) {
	if o == nil || o.Dir == "" {
		return os.Getwd()
	}
	return filepath.Abs(o.Dir)
}
