package config

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func lookup(m map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func TestParseEnvGivesDefaults(t *testing.T) {
	t.Parallel()
	want := &Env{
		Addr: "127.0.0.1:8080", AdminAddr: "127.0.0.1:8081", ConfigPath: "bae-config.toml",
		Store: Store{Path: ".lambae/lambae.db"}, AdminKeyFile: ".lambae/admin.key",
		TurnTimeout: 120 * time.Second, ShutdownTimeout: 30 * time.Second, LogLevel: slog.LevelInfo,
		SandboxDriver: "auto", SubagentTimeout: 600 * time.Second, MaxSubagentsPerSession: 8,
	}
	e, err := ParseEnv(lookup(nil))
	require.NoError(t, err)
	require.Equal(t, want, e)

	e, err = ParseEnv(func(string) (string, bool) { return "", true })
	require.NoError(t, err)
	require.Equal(t, want, e, "an empty variable is an unset one")
}

func TestParseEnvReadsEveryVariable(t *testing.T) {
	t.Parallel()
	e, err := ParseEnv(lookup(map[string]string{
		"BAE_ADDR": ":9000", "BAE_ADMIN_ADDR": "[::1]:9001", "BAE_CONFIG": "/etc/bae.toml", "BAE_STORE": "dynamodb:sessions",
		"BAE_ADMIN_KEY_FILE": "/run/key", "BAE_ADMIN_KEY_HASH_FILE": "/run/hash", "BAE_TURN_TIMEOUT": "2", "BAE_SHUTDOWN_TIMEOUT": "0.5",
		"BAE_LOG": "Debug", "BAE_SANDBOX_DRIVER": "fargate", "BAE_SUBAGENT_TIMEOUT": "60", "BAE_MAX_SUBAGENTS_PER_SESSION": "0",
	}))
	require.NoError(t, err)
	require.Equal(t, &Env{
		Addr: ":9000", AdminAddr: "[::1]:9001", ConfigPath: "/etc/bae.toml", Store: Store{Table: "sessions"},
		AdminKeyFile: "/run/key", AdminKeyHashFile: "/run/hash",
		TurnTimeout: 2 * time.Second, ShutdownTimeout: 500 * time.Millisecond, LogLevel: slog.LevelDebug,
		SandboxDriver: "fargate", SubagentTimeout: time.Minute, MaxSubagentsPerSession: 0,
	}, e)
}

func TestParseEnvNamesTheBadVariableAndWhatItTakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, takes string }{
		{"BAE_ADDR", "8080", "host:port"},
		{"BAE_ADDR", "127.0.0.1:http", "host:port"},
		{"BAE_ADDR", "127.0.0.1:70000", "host:port"},
		{"BAE_ADMIN_ADDR", "0.0.0.0:8081", "a loopback host:port only"},
		{"BAE_ADMIN_ADDR", ":8081", "a loopback host:port only"},
		{"BAE_ADMIN_ADDR", "192.168.1.5:8081", "a loopback host:port only"},
		{"BAE_ADMIN_ADDR", "admin.example.com:8081", "a loopback host:port only"},
		{"BAE_ADMIN_ADDR", "localhost", "a loopback host:port only"},
		{"BAE_STORE", "postgres://x", "embedded:<path> or dynamodb:<table>"},
		{"BAE_STORE", "embedded:", "embedded:<path> or dynamodb:<table>"},
		{"BAE_STORE", "dynamodb:a", "embedded:<path> or dynamodb:<table>"},
		{"BAE_STORE", "dynamodb:no spaces", "embedded:<path> or dynamodb:<table>"},
		{"BAE_TURN_TIMEOUT", "soon", "a number of seconds"},
		{"BAE_TURN_TIMEOUT", "0", "a number of seconds above 0"},
		{"BAE_TURN_TIMEOUT", "NaN", "a number of seconds"},
		{"BAE_SHUTDOWN_TIMEOUT", "-1", "a number of seconds"},
		{"BAE_SUBAGENT_TIMEOUT", "1e99", "a number of seconds"},
		{"BAE_SANDBOX_DRIVER", "podman", "one of auto, none, process, docker, fargate"},
		{"BAE_MAX_SUBAGENTS_PER_SESSION", "-1", "a whole number"},
		{"BAE_MAX_SUBAGENTS_PER_SESSION", "2.5", "a whole number"},
		{"BAE_LOG", "loud", "one of debug, info, warn, error"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Parallel()
			e, err := ParseEnv(lookup(map[string]string{c.name: c.value}))
			require.ErrorContains(t, err, c.name+`="`+c.value+`": it takes `+c.takes)
			require.Nil(t, e)
		})
	}
}

func TestParseEnvReportsAllBadVariables(t *testing.T) {
	t.Parallel()
	_, err := ParseEnv(lookup(map[string]string{"BAE_ADDR": "x", "BAE_LOG": "y"}))
	require.ErrorContains(t, err, "BAE_ADDR")
	require.ErrorContains(t, err, "BAE_LOG")
}

func TestStoreTakesPathsAndTables(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]Store{
		"embedded:C:/data/x.db": {Path: "C:/data/x.db"},
		"embedded:x":            {Path: "x"},
		"dynamodb:my.table-1_x": {Table: "my.table-1_x"},
		"dynamodb:arn:aws:dynamodb:eu-west-1:123456789012:table/t": {Table: "arn:aws:dynamodb:eu-west-1:123456789012:table/t"},
	} {
		e, err := ParseEnv(lookup(map[string]string{"BAE_STORE": value}))
		require.NoError(t, err, value)
		require.Equal(t, want, e.Store)
	}
}

func TestExposedTellsWhoCanReachTheClientAPI(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:1": false, "127.9.9.9:1": false, "[::1]:1": false, "localhost:1": false, "[::ffff:127.0.0.1]:1": false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, "example.com:1": true,
	} {
		require.Equal(t, want, (&Env{Addr: addr}).Exposed(), addr)
	}
}
