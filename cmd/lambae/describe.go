package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
)

// describe is what an event says, for people. It is not cut, and may hold
// anything that others wrote: write it through oneLine or safe.
func describe(event lambae.Event) string {
	payload, err := event.Decode()
	if err != nil {
		return string(event.Payload)
	}
	switch payload := payload.(type) {
	case *lambae.Message:
		return describeMessage(payload.Content)
	case *lambae.ProviderRequestPayload:
		return describeRequest(payload)
	case *lambae.ProviderResponsePayload:
		return describeResponse(payload)
	case *lambae.ToolCallPayload:
		return fmt.Sprintf("%s %s (%s)", payload.Name, payload.Input, runBy(payload))
	case *lambae.ToolResultPayload:
		return failed(payload.IsError) + payload.Content.Text()
	case *lambae.MCPRequestPayload:
		return fmt.Sprintf("%s on %s %s", payload.Tool, payload.ServerName, payload.Input)
	case *lambae.MCPResponsePayload:
		return failed(!payload.OK) + cmp.Or(payload.Error, string(payload.Result))
	case *lambae.SandboxRequestPayload:
		return "$ " + cmp.Or(text(payload.Command), string(payload.Input))
	case *lambae.SandboxResponsePayload:
		return describeExec(payload)
	case *lambae.OpenPayload:
		return describeOpen(payload)
	case *lambae.SandboxAvailablePayload:
		var images []string
		for _, image := range payload.Images {
			images = append(images, fmt.Sprintf("%s is %s", image.Name, image.Status))
		}
		return joined(images)
	case *lambae.SandboxPayload:
		return parts(payload.Dispatch, cmp.Or(text(payload.Image), "no sandbox"), cmp.Or(payload.SandboxID, text(payload.ContainerID)),
			payload.Phase, payload.Reason, text(payload.Detail))
	case *lambae.SubagentPayload:
		return parts(payload.Dispatch, payload.Harness, payload.Model, payload.SubagentID,
			text(payload.Reason), exitCode(payload.ExitCode), text(payload.Detail))
	case *lambae.ClosePayload:
		return payload.Reason
	case *lambae.ErrorPayload:
		return parts(payload.Reason, payload.Provider, payload.Detail)
	case *struct{}:
		return ""
	}
	return string(event.Payload)
}

func describeMessage(content lambae.Content) string {
	var lines []string
	if text := content.Text(); text != "" {
		lines = append(lines, text)
	}
	for _, block := range content.Blocks() {
		if call, ok := block.ToolUse(); ok {
			lines = append(lines, fmt.Sprintf("[calls %s]", call.Name))
		} else if result, ok := block.ToolResult(); ok {
			lines = append(lines, fmt.Sprintf("[result %s%s]", failed(result.IsError), result.Content.Text()))
		} else if block.Type() != lambae.BlockText {
			lines = append(lines, fmt.Sprintf("[%s]", block.Type()))
		}
	}
	return strings.Join(lines, " ")
}

func describeRequest(request *lambae.ProviderRequestPayload) string {
	messages := count(len(request.Messages), "message")
	if request.MessagesOmitted {
		messages = "messages omitted"
	}
	said := fmt.Sprintf("%s %s, %s, %s", request.Provider, request.Model, messages, count(len(request.Tools), "tool"))
	if request.Attempt > 0 {
		said += fmt.Sprintf(" (attempt %d, %s)", request.Attempt+1, request.Kind)
	}
	return said
}

func describeResponse(response *lambae.ProviderResponsePayload) string {
	status := "no answer"
	if response.Status != nil {
		status = fmt.Sprint(*response.Status)
	}
	if !response.OK {
		return parts(response.Provider+" failed", status, response.Error)
	}
	var body struct { // of the Anthropic and the OpenAI format
		Usage struct {
			InputTokens      int `json:"input_tokens"`
			OutputTokens     int `json:"output_tokens"`
			PromptTokens     int `json:"prompt_tokens"`
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
		StopReason string `json:"stop_reason"`
	}
	_ = json.Unmarshal(response.Body, &body) // any other format has no usage to show
	usage := ""
	in, out := body.Usage.InputTokens+body.Usage.PromptTokens, body.Usage.OutputTokens+body.Usage.CompletionTokens
	if in+out > 0 {
		usage = fmt.Sprintf("%d tokens in, %d out", in, out)
	}
	return parts(response.Provider, status, body.StopReason, usage)
}

func describeExec(response *lambae.SandboxResponsePayload) string {
	if response.Result == nil {
		return failed(!response.OK) + response.Error
	}
	code := ""
	if response.Result.ExitCode != 0 {
		code = fmt.Sprintf("[exit code %d] ", response.Result.ExitCode)
	}
	return code + response.Result.Stdout + response.Result.Stderr
}

func describeOpen(open *lambae.OpenPayload) string {
	said := []string{text(open.ClientVersion)}
	for _, declared := range []struct {
		kind  string
		names []string
	}{{"tools", open.Tools}, {"sandbox tools", open.SandboxTools}, {"subagent tools", open.SubagentTools}} {
		if len(declared.names) > 0 {
			said = append(said, declared.kind+" "+strings.Join(declared.names, " "))
		}
	}
	return parts(said...)
}

// runBy is who runs a tool.
func runBy(call *lambae.ToolCallPayload) string {
	if server := text(call.ServerName); server != "" {
		return call.Dispatch + " " + server
	}
	return cmp.Or(call.Dispatch, "client")
}

func failed(is bool) string {
	if is {
		return "failed: "
	}
	return ""
}

func exitCode(code *int) string {
	if code == nil {
		return ""
	}
	return fmt.Sprintf("exit code %d", *code)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// parts joins what is not empty.
func parts(all ...string) string {
	var some []string
	for _, part := range all {
		if part != "" {
			some = append(some, part)
		}
	}
	return strings.Join(some, ", ")
}
