package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Sandbox drivers BAE_SANDBOX_DRIVER takes.
const (
	SandboxAuto    = "auto" // docker when an engine answers, else none
	SandboxNone    = "none"
	SandboxProcess = "process"
	SandboxDocker  = "docker"
	SandboxFargate = "fargate"
)

// Env is the BAE_* environment (admin-and-config, "Environment"), with defaults
// where a variable is unset or empty.
type Env struct {
	Addr             string // BAE_ADDR, host:port of the client API
	AdminAddr        string // BAE_ADMIN_ADDR, a loopback host:port
	ConfigPath       string // BAE_CONFIG, path of bae-config.toml
	Store            Store  // BAE_STORE
	AdminKeyFile     string // BAE_ADMIN_KEY_FILE, where the first start writes the admin key
	AdminKeyHashFile string // BAE_ADMIN_KEY_HASH_FILE, a provisioned admin key by its hash; "" = none

	TurnTimeout     time.Duration // BAE_TURN_TIMEOUT, how long a paused turn keeps the gate
	ShutdownTimeout time.Duration // BAE_SHUTDOWN_TIMEOUT, how long running turns may finish
	LogLevel        slog.Level    // BAE_LOG

	SandboxDriver          string        // BAE_SANDBOX_DRIVER; "process" must be asked for, since it runs a model's commands on this machine
	SubagentTimeout        time.Duration // BAE_SUBAGENT_TIMEOUT, for declarations that set none
	MaxSubagentsPerSession int           // BAE_MAX_SUBAGENTS_PER_SESSION; 0 allows none
}

// Store says where sessions are kept. Exactly one field is set.
type Store struct {
	Path  string // embedded:<path>, a file of this process alone
	Table string // dynamodb:<table>, a table name or ARN
}

// Exposed reports whether Addr reaches other machines, which a start should say.
func (e *Env) Exposed() bool { return !loopback(e.Addr) }

// ParseEnv reads the environment through lookup, [os.LookupEnv] in a process.
// Its error names each bad variable and what that takes.
func ParseEnv(lookup func(string) (string, bool)) (*Env, error) {
	r := envReader{lookup: lookup}
	e := &Env{
		Addr:             r.addr("BAE_ADDR", "127.0.0.1:8080"),
		AdminAddr:        r.loopbackAddr("BAE_ADMIN_ADDR", "127.0.0.1:8081"),
		ConfigPath:       r.text("BAE_CONFIG", "bae-config.toml"),
		Store:            r.store("BAE_STORE", "embedded:.lambae/lambae.db"),
		AdminKeyFile:     r.text("BAE_ADMIN_KEY_FILE", ".lambae/admin.key"),
		AdminKeyHashFile: r.text("BAE_ADMIN_KEY_HASH_FILE", ""),

		TurnTimeout:     r.seconds("BAE_TURN_TIMEOUT", "120"),
		ShutdownTimeout: r.seconds("BAE_SHUTDOWN_TIMEOUT", "30"),
		LogLevel:        r.level("BAE_LOG", "info"),

		SandboxDriver:          r.oneOf("BAE_SANDBOX_DRIVER", SandboxAuto, SandboxNone, SandboxProcess, SandboxDocker, SandboxFargate),
		SubagentTimeout:        r.seconds("BAE_SUBAGENT_TIMEOUT", "600"),
		MaxSubagentsPerSession: r.count("BAE_MAX_SUBAGENTS_PER_SESSION", "8"),
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return e, nil
}

// envReader collects what is wrong while it reads.
type envReader struct {
	lookup func(string) (string, bool)
	errs   []error
}

// text takes an empty variable for an unset one: templates of containers and
// stacks can often write only that.
func (r *envReader) text(name, preset string) string {
	if v, ok := r.lookup(name); ok && v != "" {
		return v
	}
	return preset
}

func (r *envReader) refuse(name, value, takes string) {
	r.errs = append(r.errs, fmt.Errorf("%s=%q: it takes %s", name, value, takes))
}

func (r *envReader) addr(name, preset string) string {
	v := r.text(name, preset)
	if !hostPort(v) {
		r.refuse(name, v, "host:port, like "+preset)
	}
	return v
}

func (r *envReader) loopbackAddr(name, preset string) string {
	v := r.text(name, preset)
	if !hostPort(v) || !loopback(v) {
		r.refuse(name, v, "a loopback host:port only, like "+preset+": the admin API must not be reached from other machines")
	}
	return v
}

func (r *envReader) seconds(name, preset string) time.Duration {
	const most = 7 * 24 * 3600
	v := r.text(name, preset)
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n > 0 && n <= most) {
		r.refuse(name, v, fmt.Sprintf("a number of seconds above 0 and up to %d, like %s", most, preset))
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

func (r *envReader) count(name, preset string) int {
	const most = 1000
	v := r.text(name, preset)
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > most {
		r.refuse(name, v, fmt.Sprintf("a whole number from 0 to %d, like %s", most, preset))
	}
	return n
}

func (r *envReader) oneOf(name, preset string, others ...string) string {
	v := r.text(name, preset)
	all := append([]string{preset}, others...)
	for _, known := range all {
		if v == known {
			return v
		}
	}
	r.refuse(name, v, "one of "+strings.Join(all, ", "))
	return ""
}

func (r *envReader) level(name, preset string) slog.Level {
	v := r.text(name, preset)
	switch strings.ToLower(v) {
	case "debug":
		return slog.LevelDebug
	case "info":
		return slog.LevelInfo
	case "warn", "warning":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	r.refuse(name, v, "one of debug, info, warn, error")
	return 0
}

// tableName matches a DynamoDB table's name, or the ARN of one.
const tableName = `^([A-Za-z0-9_.-]{3,255}|arn:[^:]+:dynamodb:.+:table/.+)$`

func (r *envReader) store(name, preset string) Store {
	v := r.text(name, preset)
	driver, rest, _ := strings.Cut(v, ":")
	switch {
	case driver == "embedded" && rest != "":
		return Store{Path: rest}
	case driver == "dynamodb" && regexp.MustCompile(tableName).MatchString(rest):
		return Store{Table: rest}
	}
	r.refuse(name, v, "embedded:<path> or dynamodb:<table>, like "+preset)
	return Store{}
}

func hostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// loopback does not resolve names: what localhost means is fixed, what another
// name means today says nothing of tomorrow. An empty host is every interface.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
