package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// settingsArg is the value of --settings: a path, or inline settings with the
// sandbox and output style options merged in.
func (o *Options) settingsArg() (string, error) {
	inline, path, err := o.flagSettings()
	if err != nil || path != "" || inline == nil {
		return path, err
	}
	encoded, err := json.Marshal(inline)
	if err != nil {
		return "", fmt.Errorf("encode Settings: %w", err)
	}
	return string(encoded), nil
}

// flagSettings returns the inline settings, or the path of a settings file.
// A string is inline when it looks like a JSON object.
func (o *Options) flagSettings() (inline map[string]any, path string, err error) {
	switch s := o.Settings.(type) {
	case nil:
	case string:
		if !strings.HasPrefix(strings.TrimSpace(s), "{") {
			path = s
		} else if err := json.Unmarshal([]byte(s), &inline); err != nil {
			return nil, "", fmt.Errorf("decode inline Settings: %w", err)
		}
	default:
		encoded, err := json.Marshal(s)
		if err != nil {
			return nil, "", fmt.Errorf("encode Settings: %w", err)
		}
		if err := json.Unmarshal(encoded, &inline); err != nil {
			return nil, "", fmt.Errorf("option Settings must encode to a JSON object: %w", err)
		}
	}
	if o.Sandbox == nil && o.OutputStyle == "" {
		return inline, path, nil
	}
	if path != "" {
		return nil, "", errors.New("options Sandbox and OutputStyle cannot be combined with a settings file; " +
			"put them into the file, or give Settings inline")
	}
	if inline == nil {
		inline = map[string]any{}
	}
	if o.OutputStyle != "" {
		inline["outputStyle"] = o.OutputStyle
	}
	if o.Sandbox != nil {
		base, _ := inline["sandbox"].(map[string]any)
		inline["sandbox"] = mergeSandbox(base, o.Sandbox)
	}
	return inline, "", nil
}

// mergeSandbox lays the sandbox option over the sandbox block of inline
// settings. The option prevails, except that restrictions add up: no option
// can lift what the settings forbid, and nothing in the settings may switch
// off what the option restricts.
func mergeSandbox(base, option map[string]any) map[string]any {
	merged := mergeSandboxLevel(base, option, "")
	if _, set := merged["failIfUnavailable"]; !set && option["enabled"] == true {
		// A caller that asks for a sandbox must not silently run without one.
		merged["failIfUnavailable"] = true
	}
	if files, ok := merged["filesystem"].(map[string]any); ok && option["filesystem"] != nil {
		if own, _ := option["filesystem"].(map[string]any); own["disabled"] == nil {
			delete(files, "disabled")
		}
	}
	network, _ := merged["network"].(map[string]any)
	own, _ := option["network"].(map[string]any)
	if own["allowedDomains"] != nil || own["deniedDomains"] != nil || own["strictAllowlist"] == true {
		// Traffic through the settings' own proxy would bypass these lists.
		for _, port := range []string{"httpProxyPort", "socksProxyPort"} {
			if own[port] == nil {
				delete(network, port)
			}
		}
	}
	return merged
}

func mergeSandboxLevel(base, option map[string]any, path string) map[string]any {
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range option {
		at := path + key
		was, has := merged[key]
		inner, isMap := value.(map[string]any)
		wasInner, wasMap := was.(map[string]any)
		switch {
		case has && addsUp(at):
			merged[key] = mergeArrays(asArray(was), asArray(value))
		case isMap && (wasMap || !has) && at != "ripgrep" && at != "network.tlsTerminate":
			merged[key] = mergeSandboxLevel(wasInner, inner, at+".")
		default:
			merged[key] = value
		}
	}
	return merged
}

func addsUp(path string) bool {
	switch path {
	case "filesystem.denyRead", "filesystem.denyWrite", "network.deniedDomains", "credentials.files", "credentials.envVars":
		return true
	}
	return false
}

func asArray(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case []string:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out
	}
	return nil
}
