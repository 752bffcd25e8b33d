package mcp

import (
	"slices"
	"strings"
)

// inherited are the variables a stdio server gets from this process: what a
// program needs to find itself, its user, its language and the network. All
// others stay here, since they hold the keys of providers and of AWS; what a
// server needs of them is named in its env, for instance
// env = { GITHUB_TOKEN = "${GITHUB_TOKEN}" }. Other MCP clients do the same.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	// Windows
	"APPDATA", "LOCALAPPDATA", "HOMEDRIVE", "HOMEPATH", "PATHEXT", "PROGRAMDATA", "PROGRAMFILES",
	"SYSTEMDRIVE", "SYSTEMROOT", "COMSPEC", "TEMP", "TMP", "USERNAME", "USERPROFILE",
}

// childEnv is the inherited part of environ and, over it, the server's own.
func childEnv(environ []string, own map[string]string) []string {
	var env []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name) // http_proxy, and Windows' Path
		if slices.Contains(inherited, upper) || strings.HasPrefix(name, "LC_") {
			env = append(env, kv)
		}
	}
	for name, value := range own {
		env = append(env, name+"="+value) // the last one counts
	}
	return env
}
