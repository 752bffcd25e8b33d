package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// check holds the rules of a start. It reports all broken ones, so that an
// operator corrects the file once.
func check(f *File) error {
	var errs []error
	names := newNames("[[providers.entries]]")
	for i, p := range f.Providers {
		at, err := names.add(i, p.Name)
		errs = append(errs, err)
		for _, problem := range checkProvider(p) {
			errs = append(errs, fmt.Errorf("%s: %s", at, problem))
		}
	}
	names = newNames("[[mcp.servers]]")
	for i, s := range f.MCP {
		at, err := names.add(i, s.Name)
		errs = append(errs, err)
		if problem := checkMCP(s); problem != "" {
			errs = append(errs, fmt.Errorf("%s: %s", at, problem))
		}
	}
	for _, problem := range checkTelemetry(f.Telemetry) {
		errs = append(errs, fmt.Errorf("[telemetry]: %s", problem))
	}
	return errors.Join(errs...)
}

func checkProvider(p Provider) (problems []string) {
	switch p.Kind {
	case KindAnthropic, KindOpenAI, KindBedrock, KindEcho:
	case "":
		problems = append(problems, `provider is missing; set it to "anthropic", "openai", "bedrock" or "echo"`)
	default:
		problems = append(problems, fmt.Sprintf(`unknown provider %q; use "anthropic", "openai", "bedrock" or "echo"`, p.Kind))
	}
	if blank(p.Model) {
		problems = append(problems, "model is missing; set it to the model's id")
	}
	if p.MaxTokens < 1 {
		problems = append(problems, fmt.Sprintf("max_tokens is %d; set it to 1 or more", p.MaxTokens))
	}
	if p.MaxRetries < 0 {
		problems = append(problems, fmt.Sprintf("max_retries is %d; set it to 0 or more", p.MaxRetries))
	}
	if p.BaseURL != "" {
		problems = append(problems, checkBaseURL(p.BaseURL)...)
	}
	return problems
}

// checkBaseURL refuses what cannot take a path at its end, and credentials:
// every provider.request event shows the base URL. No message quotes the URL,
// which for the same reason may hold something secret.
func checkBaseURL(s string) (problems []string) {
	if !httpURL(s) {
		return []string{"base_url is not an http or https URL; write it like https://gateway.example.com"}
	}
	u, _ := url.Parse(s)
	if u.User != nil {
		problems = append(problems, "base_url holds a user name or password, which events would show; use auth_token")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		problems = append(problems, "base_url has a query or fragment; paths are appended to it, so leave them out")
	}
	return problems
}

func checkMCP(s MCPServer) string {
	switch s.Transport {
	case TransportStdio:
		if blank(s.Command) {
			return `transport "stdio" needs command; set it to the program to start`
		}
	case TransportHTTP, TransportSSE:
		if blank(s.URL) {
			return fmt.Sprintf("transport %q needs url; set it to the server's address", s.Transport)
		}
		if !httpURL(s.URL) {
			return "url is not an http or https URL; write it like https://mcp.example.com/mcp"
		}
	case "":
		return `transport is missing; set it to "stdio", "http" or "sse"`
	default:
		return fmt.Sprintf(`unknown transport %q; use "stdio", "http" or "sse"`, s.Transport)
	}
	return ""
}

func checkTelemetry(t Telemetry) (problems []string) {
	if !t.Enabled {
		return nil
	}
	if !httpURL(t.OTLPEndpoint) {
		problems = append(problems, "enabled needs otlp_endpoint, an http or https URL like http://127.0.0.1:4317")
	}
	if !(t.SampleRatio >= 0 && t.SampleRatio <= 1) { // also refuses NaN
		problems = append(problems, fmt.Sprintf("sample_ratio is %v; set it between 0 and 1", t.SampleRatio))
	}
	return problems
}

// names keeps the entries of one section apart.
type names struct {
	section string
	seen    map[string]int
}

func newNames(section string) *names { return &names{section, map[string]int{}} }

// add returns how messages call entry i, and an error for a blank or taken name.
func (n *names) add(i int, name string) (at string, err error) {
	if blank(name) {
		at = fmt.Sprintf("%s number %d", n.section, i+1)
		return at, fmt.Errorf("%s: name is blank; give every entry a name of its own", at)
	}
	at = fmt.Sprintf("%s %q", n.section, name)
	if first, taken := n.seen[name]; taken {
		return at, fmt.Errorf("%s: name is used by entries number %d and %d; rename one", at, first+1, i+1)
	}
	n.seen[name] = i
	return at, nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func httpURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
