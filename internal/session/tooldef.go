package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lambae/lambae/internal/jsonfield"
)

// ClientTool is a tool that the declaring client runs itself.
type ClientTool struct {
	Name        string
	Description *string // nil if none was sent
	// InputSchema is a JSON object as it was sent, nil if none was.
	InputSchema json.RawMessage
}

// SandboxTool is a tool whose input.command the server runs in the session's
// remote sandbox.
type SandboxTool struct{ ClientTool }

// SubagentTool is a tool that launches a command-line agent in the session's
// remote sandbox. The model is shown its name, description and schema only.
type SubagentTool struct {
	ClientTool
	// Image is the sandbox image that has the harnesses.
	Image     string
	Subagents []SubagentHarness
}

// SubagentHarness is one command-line agent a [SubagentTool] may launch.
type SubagentHarness struct {
	Harness string `json:"harness"`
	// CommandTemplate is a shell command, see [ExpandCommandTemplate].
	CommandTemplate string `json:"command_template"`
	// PromptVia is [PromptViaStdin] or [PromptViaArg].
	PromptVia string `json:"prompt_via"`
	// TimeoutSecs is nil where the declaration leaves it to the server.
	TimeoutSecs *int `json:"timeout_secs,omitempty"`
}

// How a harness gets its prompt.
const (
	PromptViaStdin = "stdin"
	PromptViaArg   = "arg"
)

// maxSubagentTimeout keeps a time-out of any size a valid duration.
const maxSubagentTimeout = 365 * 24 * time.Hour

// Timeout is the declaration's time-out, or else the server's.
func (h SubagentHarness) Timeout(server time.Duration) time.Duration {
	switch {
	case h.TimeoutSecs == nil:
		return server
	case *h.TimeoutSecs > int(maxSubagentTimeout/time.Second):
		return maxSubagentTimeout
	}
	return time.Duration(*h.TimeoutSecs) * time.Second
}

// OpenRequest is the body of an open or a join.
type OpenRequest struct {
	ClientVersion *string
	Tools         []ClientTool
	SandboxTools  []SandboxTool
	SubagentTools []SubagentTool
}

// ParseOpenBody reads the body of an open or a join (client API, "open a
// session"). It checks types only, see [OpenRequest.Validate] for the rules. Its
// errors are [*jsonfield.Error].
func ParseOpenBody(body []byte) (OpenRequest, error) {
	o, err := jsonfield.Parse(body)
	if err != nil {
		return OpenRequest{}, err
	}
	req := OpenRequest{
		ClientVersion: o.OptionalString("client_version"),
		Tools:         ReadClientTools(o, "tools"),
	}
	for _, t := range ReadClientTools(o, "sandbox_tools") {
		req.SandboxTools = append(req.SandboxTools, SandboxTool{t})
	}
	for _, t := range o.Objects("subagent_tools") {
		req.SubagentTools = append(req.SubagentTools, readSubagentTool(t))
	}
	if err := o.Err(); err != nil {
		return OpenRequest{}, err
	}
	return req, nil
}

// ReadClientTools reads a member that must be an array of tools, each with a
// non-blank name. Errors are o's.
func ReadClientTools(o jsonfield.Object, member string) []ClientTool {
	var tools []ClientTool
	for _, t := range o.Objects(member) {
		tool := readTool(t)
		tool.Name = t.NonBlank("name")
		tools = append(tools, tool)
	}
	return tools
}

func readTool(o jsonfield.Object) ClientTool {
	return ClientTool{Description: o.OptionalString("description"), InputSchema: o.RawObject("input_schema")}
}

// readSubagentTool lets blank and missing members pass: those are not errors of
// type, and have an answer of their own.
func readSubagentTool(o jsonfield.Object) SubagentTool {
	text := func(o jsonfield.Object, name, otherwise string) string {
		if s := o.OptionalString(name); s != nil {
			return *s
		}
		return otherwise
	}
	t := SubagentTool{ClientTool: readTool(o), Image: text(o, "image", "")}
	t.Name = text(o, "name", "")
	for _, h := range o.Objects("subagents") {
		t.Subagents = append(t.Subagents, SubagentHarness{
			Harness:         text(h, "harness", ""),
			CommandTemplate: text(h, "command_template", ""),
			PromptVia:       text(h, "prompt_via", PromptViaStdin),
			TimeoutSecs:     h.OptionalInt("timeout_secs"),
		})
	}
	return t
}

// Declaration is the request's tools as the log keeps them.
func (r OpenRequest) Declaration() Declaration {
	var d Declaration
	for _, t := range r.Tools {
		d.Tools = append(d.Tools, t.Tool())
	}
	for _, t := range r.SandboxTools {
		d.Sandbox = append(d.Sandbox, t.Tool())
	}
	for _, t := range r.SubagentTools {
		d.Subagent = append(d.Subagent, t.Tool())
	}
	return d
}

// Tool is the tool as the log keeps it. A tool without a schema is advertised
// with that of any object, which providers insist on.
func (t ClientTool) Tool() Tool {
	advert := struct {
		Name        string          `json:"name"`
		Description *string         `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"`
	}{t.Name, t.Description, t.InputSchema}
	if advert.InputSchema == nil {
		advert.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return Tool{Name: t.Name, Advert: MarshalJSON(advert)}
}

// subagentDecl is what the log keeps of a subagent tool beside its advert.
type subagentDecl struct {
	Image     string            `json:"image"`
	Subagents []SubagentHarness `json:"subagents"`
}

// Tool is the tool as the log keeps it, see [SubagentToolOf].
func (t SubagentTool) Tool() Tool {
	tool := t.ClientTool.Tool()
	tool.Decl = MarshalJSON(subagentDecl{t.Image, t.Subagents})
	return tool
}

// SubagentToolOf reads back what [SubagentTool.Tool] made, but for the members
// that only the advert has.
func SubagentToolOf(t Tool) (SubagentTool, error) {
	var decl subagentDecl
	if err := json.Unmarshal(t.Decl, &decl); err != nil {
		return SubagentTool{}, fmt.Errorf("read the declaration of subagent tool %q: %w", t.Name, err)
	}
	return SubagentTool{ClientTool: ClientTool{Name: t.Name}, Image: decl.Image, Subagents: decl.Subagents}, nil
}

// Harness returns the harness of this name.
func (t SubagentTool) Harness(name string) (SubagentHarness, bool) {
	i := slices.IndexFunc(t.Subagents, func(h SubagentHarness) bool { return h.Harness == name })
	if i < 0 {
		return SubagentHarness{}, false
	}
	return t.Subagents[i], true
}
