package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/lambae/lambae/internal/config"
)

// Registry is what the configuration to deploy asks AWS for.
type Registry struct {
	Models  []string // of bedrock entries: model ids, inference profiles or ARNs
	Secrets []string // Secrets Manager: names or ARNs
	Params  []string // Parameter Store: names
	// Warnings are about what will not work as it does on a laptop.
	Warnings []string
}

// lambdaVariables are what Lambda sets for every function.
var lambdaVariables = regexp.MustCompile(`^(AWS_REGION|AWS_DEFAULT_REGION|AWS_LAMBDA_[A-Z_]+|LAMBDA_TASK_ROOT|TZ|PATH)$`)

// ReadRegistry reads a configuration as the functions will. It refuses what
// cannot work or would put a secret in the bundle.
func ReadRegistry(path string) (Registry, error) {
	if _, err := os.Stat(path); err != nil {
		return Registry{}, fmt.Errorf("lambae:config: %w; write the configuration to deploy there", err)
	}
	file, err := config.Load(path)
	if err != nil {
		return Registry{}, err
	}
	r, err := NewRegistry(file)
	if err != nil {
		return Registry{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return r, nil
}

// NewRegistry is [ReadRegistry] of a parsed configuration.
func NewRegistry(file *config.File) (Registry, error) {
	var r Registry
	var errs []error
	refer := func(where, value string) {
		errs = append(errs, r.refer(where, value))
	}
	for _, p := range file.Providers {
		where := fmt.Sprintf("provider %q", p.Name)
		if p.Kind == config.KindBedrock {
			r.Models = append(r.Models, p.Model)
		}
		if p.AuthToken != "" && !strings.Contains(p.AuthToken, "${") {
			errs = append(errs, fmt.Errorf("%s: auth_token is written out and would be readable in the deployment; store it and write ${secretsmanager:NAME} or ${ssm:/NAME}", where))
		}
		refer(where, p.AuthToken)
	}
	for _, s := range file.MCP {
		where := fmt.Sprintf("MCP server %q", s.Name)
		if s.Transport == config.TransportStdio {
			r.Warnings = append(r.Warnings, where+" is a command; a function has none but those in its bundle, so sessions will go without it")
		}
		for _, value := range s.Args {
			refer(where, value)
		}
		errs = append(errs, r.referAll(where, s.Env), r.referAll(where, s.Headers))
	}
	errs = append(errs, r.referAll("telemetry", file.Telemetry.Headers))
	if file.Telemetry.Enabled && !overHTTP(file.Telemetry.OTLPEndpoint) {
		r.Warnings = append(r.Warnings, "telemetry: functions speak OTLP over HTTP only, usually port 4318")
	}
	for _, list := range []*[]string{&r.Models, &r.Secrets, &r.Params} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r, errors.Join(errs...)
}

func (r *Registry) referAll(where string, values map[string]string) error {
	var errs []error
	for name, value := range values {
		if strings.EqualFold(name, "authorization") && !strings.Contains(value, "${") {
			errs = append(errs, fmt.Errorf("%s: the header %s is written out and would be readable in the deployment; store its value and write ${secretsmanager:NAME} or ${ssm:/NAME}", where, name))
		}
		errs = append(errs, r.refer(where, value))
	}
	return errors.Join(errs...)
}

var reference = regexp.MustCompile(`\$\{([^}]*)\}`)

// refer collects the references of one value.
func (r *Registry) refer(where, value string) error {
	var errs []error
	for _, match := range reference.FindAllStringSubmatch(value, -1) {
		kind, id, stored := strings.Cut(match[1], ":")
		switch {
		case stored && kind == "secretsmanager":
			id, _, _ = strings.Cut(id, "#")
			r.Secrets = append(r.Secrets, id)
		case stored && kind == "ssm":
			r.Params = append(r.Params, id)
		case stored:
			errs = append(errs, fmt.Errorf("%s: unknown reference ${%s}; write ${secretsmanager:NAME} or ${ssm:/NAME}", where, match[1]))
		case !lambdaVariables.MatchString(match[1]):
			errs = append(errs, fmt.Errorf("%s: ${%s} is an environment variable, and a deployed function has only those of Lambda; store the value and write ${secretsmanager:NAME} or ${ssm:/NAME}", where, match[1]))
		}
	}
	return errors.Join(errs...)
}

// overHTTP reports whether an OTLP endpoint is one of HTTP, as package telemetry
// tells: by its port, or by having a path.
func overHTTP(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (u.Port() == "4318" || strings.Trim(u.Path, "/") != "")
}
