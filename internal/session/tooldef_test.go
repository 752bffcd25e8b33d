package session

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOpenBodyNamesTheWrongMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"not an object":              {`[]`, "the body must be a JSON object"},
		"version a number":           {`{"client_version":1}`, "client_version must be a string or null"},
		"tools a number":             {`{"tools":5}`, "tools must be an array"},
		"tool a string":              {`{"tools":["a"]}`, "tools[0] must be an object"},
		"tool without name":          {`{"tools":[{"name":"a"},{"description":"x"}]}`, "tools[1].name must be a non-empty string"},
		"tool with blank name":       {`{"tools":[{"name":" "}]}`, "tools[0].name must be a non-empty string"},
		"description a number":       {`{"tools":[{"name":"a","description":1}]}`, "tools[0].description must be a string or null"},
		"schema a string":            {`{"tools":[{"name":"a","input_schema":"x"}]}`, "tools[0].input_schema must be an object or null"},
		"sandbox tool without name":  {`{"sandbox_tools":[{}]}`, "sandbox_tools[0].name must be a non-empty string"},
		"subagent name a number":     {`{"subagent_tools":[{"name":1}]}`, "subagent_tools[0].name must be a string or null"},
		"subagents an object":        {`{"subagent_tools":[{"subagents":{}}]}`, "subagent_tools[0].subagents must be an array"},
		"time-out a string":          {`{"subagent_tools":[{"subagents":[{"timeout_secs":"1"}]}]}`, "subagent_tools[0].subagents[0].timeout_secs must be an integer or null"},
		"first of two wrong members": {`{"tools":5,"client_version":1}`, "client_version must be a string or null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := ParseOpenBody([]byte(c.body))
			require.EqualError(t, err, c.want)
			require.Equal(t, OpenRequest{}, req)
		})
	}
}

func TestOpenBodyIsRead(t *testing.T) {
	t.Parallel()
	req, err := ParseOpenBody([]byte(`{"client_version":"1.0","extra":{},
		"tools":[{"name":"a","description":"the \"a\" <tool>","input_schema":{"type": "object","n":1e400},"strict":true},{"name":"b","description":null}],
		"sandbox_tools":[{"name":"sh"}],
		"subagent_tools":[{"name":"launch","image":"img","description":"d","input_schema":{"type":"object"},
			"subagents":[{"harness":"h","command_template":"run {model}"},{"harness":"i","command_template":"run {prompt}","prompt_via":"arg","timeout_secs":5}]}]}`))
	require.NoError(t, err)
	require.Equal(t, "1.0", *req.ClientVersion)
	require.NoError(t, req.Validate([]string{"a", "b"}))

	d := req.Declaration()
	require.Len(t, d.Tools, 2)
	require.Equal(t, "a", d.Tools[0].Name)
	require.Equal(t, `{"name":"a","description":"the \"a\" <tool>","input_schema":{"type":"object","n":1e400}}`, string(d.Tools[0].Advert))
	require.Equal(t, `{"name":"b","input_schema":{"type":"object","properties":{}}}`, string(d.Tools[1].Advert))
	require.Equal(t, "sh", d.Sandbox[0].Name)
	require.Equal(t, `{"name":"launch","description":"d","input_schema":{"type":"object"}}`, string(d.Subagent[0].Advert))

	launch, err := SubagentToolOf(d.Subagent[0])
	require.NoError(t, err)
	require.Equal(t, "img", launch.Image)
	h, ok := launch.Harness("i")
	require.True(t, ok)
	require.Equal(t, PromptViaArg, h.PromptVia)
	require.Equal(t, 5*time.Second, h.Timeout(time.Minute))
	h, ok = launch.Harness("h")
	require.True(t, ok)
	require.Equal(t, PromptViaStdin, h.PromptVia, "stdin is the default")
	require.Equal(t, time.Minute, h.Timeout(time.Minute))
	_, ok = launch.Harness("j")
	require.False(t, ok)
}

func TestEmptyOpenBodyIsValid(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"client_version":null,"tools":null,"sandbox_tools":null,"subagent_tools":null}`} {
		req, err := ParseOpenBody([]byte(body))
		require.NoError(t, err)
		require.NoError(t, req.Validate(nil))
		require.Equal(t, Declaration{}, req.Declaration())
	}
}

func TestEnormousTimeoutStaysADuration(t *testing.T) {
	t.Parallel()
	secs := int(^uint(0) >> 1)
	require.Equal(t, maxSubagentTimeout, SubagentHarness{TimeoutSecs: &secs}.Timeout(time.Second))
}

func TestRulesOfDeclaredTools(t *testing.T) {
	t.Parallel()
	subagent := func(tool string) string { return `{"subagent_tools":[` + tool + `]}` }
	harness := func(h string) string { return subagent(`{"name":"l","image":"i","subagents":[` + h + `]}`) }
	for name, c := range map[string]struct{ body, want string }{
		"reserved tool":             {`{"tools":[{"name":"remote_subagent_status"}]}`, "reserved_tool_name: remote_subagent_status is reserved"},
		"reserved sandbox tool":     {`{"sandbox_tools":[{"name":"remote_subagent_status"}]}`, "reserved_tool_name: remote_subagent_status is reserved"},
		"reserved subagent tool":    {subagent(`{"name":"remote_subagent_status"}`), "reserved_tool_name: remote_subagent_status is reserved"},
		"reserved before allowlist": {`{"tools":[{"name":"x"}],"sandbox_tools":[{"name":"remote_subagent_status"}]}`, "reserved_tool_name: remote_subagent_status is reserved"},
		"tool off the allowlist":    {`{"tools":[{"name":"a"},{"name":"x"}]}`, `tool_not_allowed: tool "x" is not in the profile's allowlist`},
		"allowlist before subagents": {`{"tools":[{"name":"x"}],"subagent_tools":[{}]}`,
			`tool_not_allowed: tool "x" is not in the profile's allowlist`},
		"subagent without name":   {subagent(`{}`), "invalid_subagent_tools: subagent_tools[0].name must be a non-empty string"},
		"subagent without image":  {subagent(`{"name":"l","image":" "}`), "invalid_subagent_tools: subagent_tools[0].image must be a non-empty string"},
		"subagent without any":    {subagent(`{"name":"l","image":"i"}`), "invalid_subagent_tools: subagent_tools[0].subagents must be a non-empty array"},
		"empty subagents":         {harness(``), "invalid_subagent_tools: subagent_tools[0].subagents must be a non-empty array"},
		"blank harness":           {harness(`{"harness":""}`), "invalid_subagent_tools: subagent_tools[0].subagents[0].harness must be a non-empty string"},
		"unknown way of prompt":   {harness(`{"harness":"h","prompt_via":"file"}`), `invalid_subagent_tools: subagent_tools[0].subagents[0].prompt_via must be "stdin" or "arg"`},
		"time-out of nothing":     {harness(`{"harness":"h","timeout_secs":0}`), "invalid_subagent_tools: subagent_tools[0].subagents[0].timeout_secs must be 1 or more"},
		"no template":             {harness(`{"harness":"h"}`), "invalid_subagent_tools: subagent_tools[0].subagents[0].command_template must be a non-empty string"},
		"template with a bad one": {harness(`{"harness":"h","command_template":"{x}"}`), "invalid_subagent_tools: subagent_tools[0].subagents[0].command_template has an unknown placeholder {x}; there are {model} and {prompt}"},
		"harness twice":           {harness(`{"harness":"h","command_template":"a"},{"harness":"h","command_template":"b"}`), `invalid_subagent_tools: subagent_tools[0].subagents[1].harness "h" is declared twice`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := ParseOpenBody([]byte(c.body))
			require.NoError(t, err)
			err = req.Validate([]string{"a"})
			require.EqualError(t, err, c.want)
			var refusal *OpenRefusal
			require.ErrorAs(t, err, &refusal)
		})
	}
}

func TestAllowlistGovernsClientToolsOnly(t *testing.T) {
	t.Parallel()
	req, err := ParseOpenBody([]byte(`{"sandbox_tools":[{"name":"sh"}],
		"subagent_tools":[{"name":"l","image":"i","subagents":[{"harness":"h","command_template":"cat"}]}]}`))
	require.NoError(t, err)
	require.NoError(t, req.Validate(nil))
}

func TestCommandTemplates(t *testing.T) {
	t.Parallel()
	const unbalanced = "has unbalanced braces"
	for name, c := range map[string]struct{ template, via, want string }{
		"plain":                  {"cat", PromptViaStdin, ""},
		"model often":            {"a {model} b {model}", PromptViaStdin, ""},
		"prompt as argument":     {"a {prompt}{model}", PromptViaArg, ""},
		"blank":                  {" \t", PromptViaStdin, "must be a non-empty string"},
		"prompt with stdin":      {"a {prompt}", PromptViaStdin, `must not contain {prompt} when prompt_via is "stdin"`},
		"no prompt with arg":     {"a", PromptViaArg, `must contain {prompt} exactly once when prompt_via is "arg"; it has it 0 times`},
		"two prompts with arg":   {"{prompt}{prompt}", PromptViaArg, `must contain {prompt} exactly once when prompt_via is "arg"; it has it 2 times`},
		"unknown placeholder":    {"{cwd}", PromptViaStdin, "has an unknown placeholder {cwd}; there are {model} and {prompt}"},
		"empty placeholder":      {"{}", PromptViaStdin, "has an unknown placeholder {}; there are {model} and {prompt}"},
		"spaces in placeholder":  {"{ model }", PromptViaStdin, "has an unknown placeholder { model }; there are {model} and {prompt}"},
		"opened only":            {"a {model", PromptViaStdin, unbalanced},
		"opened at the end":      {"a {", PromptViaStdin, unbalanced},
		"closed only":            {"a model}", PromptViaStdin, unbalanced},
		"closed twice":           {"{model}}", PromptViaStdin, unbalanced},
		"nested":                 {"{{model}}", PromptViaStdin, unbalanced},
		"opened in another":      {"{mo{model}", PromptViaStdin, unbalanced},
		"a shell variable":       {"${HOME}", PromptViaStdin, "has an unknown placeholder {HOME}; there are {model} and {prompt}"},
		"closed before it opens": {"}{", PromptViaStdin, unbalanced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckCommandTemplate(c.template, c.via)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}

// Whatever model and prompt hold, the shell sees each as one word of exactly
// these bytes.
func TestExpandedWordsReachTheCommandUnchanged(t *testing.T) {
	t.Parallel()
	word := rapid.StringOf(rapid.RuneFrom([]rune(`{}'"$\ab;|&<>` + " \n*!")))
	rapid.Check(t, func(rt *rapid.T) {
		model, prompt := word.Draw(rt, "model"), word.Draw(rt, "prompt")
		if rapid.Bool().Draw(rt, "placeholder in model") {
			model += "{prompt}"
		}
		command, err := ExpandCommandTemplate(`printf '%s\001' {model} {prompt} {model}`, model, prompt)
		require.NoError(rt, err)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
		require.NoError(rt, err)
		require.Equal(rt, strings.Join([]string{model, prompt, model, ""}, "\x01"), string(out))
	})
}

func TestExpandRefusesATemplateThatWasNotChecked(t *testing.T) {
	t.Parallel()
	_, err := ExpandCommandTemplate("{nope}", "m", "p")
	require.ErrorContains(t, err, "command template has an unknown placeholder {nope}")
}

func FuzzOpenBody(f *testing.F) {
	for _, seed := range []string{`{}`, `{"tools":[{"name":"a"}]}`, `{"subagent_tools":[{"name":"l","image":"i","subagents":[{"harness":"h","command_template":"{model}"}]}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := ParseOpenBody(body)
		if err != nil || req.Validate([]string{"a"}) != nil {
			return
		}
		for _, tool := range req.Declaration().Subagent {
			_, err := SubagentToolOf(tool)
			require.NoError(t, err)
		}
	})
}
