package claude

import (
	"maps"
	"slices"
)

// FilterEscalatingDefaultMode returns the effective settings without a default
// permission mode that nobody with the right to it chose: a repository's files
// must not switch off the questions that protect from them. It drops
// bypassPermissions, auto and acceptEdits when the project's settings set them,
// bypassPermissions and auto when its local settings did, and whatever policy
// forbids (permissions.disableBypassPermissionsMode, disableAutoMode).
//
// The result shares nothing with r that it changes.
func FilterEscalatingDefaultMode(r *ResolvedSettings) map[string]any {
	effective := maps.Clone(r.Effective)
	permissions, _ := effective["permissions"].(map[string]any)
	mode, _ := permissions["defaultMode"].(string)
	if mode == "" || !r.escalates(PermissionMode(mode), permissions) {
		return effective
	}
	permissions = maps.Clone(permissions)
	delete(permissions, "defaultMode")
	effective["permissions"] = permissions
	return effective
}

func (r *ResolvedSettings) escalates(mode PermissionMode, permissions map[string]any) bool {
	switch mode {
	case PermissionBypass:
		if permissions["disableBypassPermissionsMode"] == "disable" {
			return true
		}
	case PermissionAuto:
		if r.Effective["disableAutoMode"] == "disable" || permissions["disableAutoMode"] == "disable" {
			return true
		}
	case PermissionAcceptEdits:
	default:
		return false
	}
	switch r.sourceOfMode() {
	case SourceProject:
		return true
	case SourceLocal:
		return mode != PermissionAcceptEdits
	}
	return false
}

// sourceOfMode is the source that had the last word on the mode; provenance is
// too coarse for that, since it is by top-level key.
func (r *ResolvedSettings) sourceOfMode() SettingSource {
	for _, layer := range slices.Backward(r.Sources) {
		if p, ok := layer.Settings["permissions"].(map[string]any); ok && p["defaultMode"] != nil {
			return layer.Source
		}
	}
	return ""
}
