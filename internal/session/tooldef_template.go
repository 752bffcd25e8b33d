package session

import (
	"errors"
	"fmt"
	"strings"
)

// The placeholders of a command template.
const (
	placeholderModel  = "model"
	placeholderPrompt = "prompt"
)

// templatePart is a piece of a template: text as it stands, or a placeholder.
type templatePart struct {
	text        string
	placeholder bool // then text is its name
}

// CheckCommandTemplate checks a subagent's command (protocol, "REST details").
// {model} may stand anywhere, {prompt} exactly once if the prompt goes to the
// command line, nowhere if it goes to standard input; no other braces.
func CheckCommandTemplate(template, promptVia string) error {
	if blank(template) {
		return errors.New("must be a non-empty string")
	}
	parts, err := parseTemplate(template)
	if err != nil {
		return err
	}
	prompts := 0
	for _, p := range parts {
		if p.placeholder && p.text == placeholderPrompt {
			prompts++
		}
	}
	switch {
	case promptVia == PromptViaArg && prompts != 1:
		return fmt.Errorf(`must contain {prompt} exactly once when prompt_via is "arg"; it has it %d times`, prompts)
	case promptVia != PromptViaArg && prompts != 0:
		return errors.New(`must not contain {prompt} when prompt_via is "stdin"`)
	}
	return nil
}

// ExpandCommandTemplate puts model and prompt into a template as single-quoted
// shell words. It is one pass over the template: what is put in is not looked at
// again, so neither a brace nor a quote in it can do anything.
func ExpandCommandTemplate(template, model, prompt string) (string, error) {
	parts, err := parseTemplate(template)
	if err != nil {
		return "", fmt.Errorf("command template %w", err)
	}
	var b strings.Builder
	for _, p := range parts {
		switch {
		case !p.placeholder:
			b.WriteString(p.text)
		case p.text == placeholderModel:
			b.WriteString(shellWord(model))
		default:
			b.WriteString(shellWord(prompt))
		}
	}
	return b.String(), nil
}

func parseTemplate(template string) (parts []templatePart, err error) {
	for rest := template; rest != ""; {
		open := strings.IndexAny(rest, "{}")
		if open < 0 {
			return append(parts, templatePart{text: rest}), nil
		}
		if open > 0 {
			parts = append(parts, templatePart{text: rest[:open]})
		}
		end := open + 1 + strings.IndexAny(rest[open+1:], "{}")
		if rest[open] == '}' || end == open || rest[end] == '{' {
			return nil, errors.New("has unbalanced braces")
		}
		name := rest[open+1 : end]
		if name != placeholderModel && name != placeholderPrompt {
			return nil, fmt.Errorf("has an unknown placeholder {%s}; there are {model} and {prompt}", name)
		}
		parts = append(parts, templatePart{text: name, placeholder: true})
		rest = rest[end+1:]
	}
	return parts, nil
}

// shellWord quotes s for a POSIX shell.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
