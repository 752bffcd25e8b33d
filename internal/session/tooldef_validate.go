package session

import (
	"fmt"
	"slices"
	"strings"
)

// ReservedToolName is the tool the server itself declares while it tracks remote
// subagents.
const ReservedToolName = "remote_subagent_status"

// Slugs of an [OpenRefusal].
const (
	SlugReservedToolName     = "reserved_tool_name"
	SlugToolNotAllowed       = "tool_not_allowed"
	SlugInvalidSubagentTools = "invalid_subagent_tools"
)

// OpenRefusal is a rule that the declared tools break. It leaves no event, key
// or row behind.
type OpenRefusal struct {
	Slug   string
	Detail string
}

func (r *OpenRefusal) Error() string { return r.Slug + ": " + r.Detail }

// Validate checks the declared tools against the rules and the profile's
// allowlist, in the protocol's order ("REST details"). It returns an
// [*OpenRefusal]. The checks that come before, of key, profile and provider, are
// not its business.
func (r OpenRequest) Validate(allowedTools []string) error {
	var names []string
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	for _, t := range r.SandboxTools {
		names = append(names, t.Name)
	}
	for _, t := range r.SubagentTools {
		names = append(names, t.Name)
	}
	if slices.Contains(names, ReservedToolName) {
		return &OpenRefusal{SlugReservedToolName, ReservedToolName + " is reserved"}
	}
	if err := ValidateClientTools(r.Tools, allowedTools); err != nil {
		return err
	}
	for i, t := range r.SubagentTools {
		if fault := t.fault(); fault != "" {
			return &OpenRefusal{SlugInvalidSubagentTools, fmt.Sprintf("subagent_tools[%d]%s", i, fault)}
		}
	}
	return nil
}

// ValidateClientTools checks the tools a client runs itself: none may have the
// reserved name, each must be in the allowlist, and an empty allowlist allows
// none. It returns an [*OpenRefusal].
func ValidateClientTools(tools []ClientTool, allowed []string) error {
	for _, t := range tools {
		if t.Name == ReservedToolName {
			return &OpenRefusal{SlugReservedToolName, ReservedToolName + " is reserved"}
		}
	}
	for _, t := range tools {
		if !slices.Contains(allowed, t.Name) {
			return &OpenRefusal{SlugToolNotAllowed, fmt.Sprintf("tool %q is not in the profile's allowlist", t.Name)}
		}
	}
	return nil
}

// fault says what is wrong with the declaration, beginning with the member's
// path, or "".
func (t SubagentTool) fault() string {
	switch {
	case blank(t.Name):
		return ".name must be a non-empty string"
	case blank(t.Image):
		return ".image must be a non-empty string"
	case len(t.Subagents) == 0:
		return ".subagents must be a non-empty array"
	}
	seen := map[string]bool{}
	for i, h := range t.Subagents {
		at := fmt.Sprintf(".subagents[%d]", i)
		if fault := h.fault(); fault != "" {
			return at + fault
		}
		if seen[h.Harness] {
			return fmt.Sprintf("%s.harness %q is declared twice", at, h.Harness)
		}
		seen[h.Harness] = true
	}
	return ""
}

func (h SubagentHarness) fault() string {
	switch {
	case blank(h.Harness):
		return ".harness must be a non-empty string"
	case h.PromptVia != PromptViaStdin && h.PromptVia != PromptViaArg:
		return `.prompt_via must be "stdin" or "arg"`
	case h.TimeoutSecs != nil && *h.TimeoutSecs < 1:
		return ".timeout_secs must be 1 or more"
	}
	if err := CheckCommandTemplate(h.CommandTemplate, h.PromptVia); err != nil {
		return ".command_template " + err.Error()
	}
	return ""
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
