package config

import "slices"

// Mask stands for every secret where a configuration is shown, whatever the
// secret held, nothing included (admin-and-config, "GET /admin/v1/config").
const Mask = "••••••••"

// Redacted returns a copy that may be shown: tokens, header values and
// environment values are [Mask], and no list or map is nil.
func (f *File) Redacted() *File {
	out := &File{
		Providers: slices.Clone(f.Providers),
		MCP:       slices.Clone(f.MCP),
		Telemetry: f.Telemetry,
		Unused:    slices.Clone(f.Unused),
	}
	for i := range out.Providers {
		out.Providers[i].AuthToken = Mask
	}
	for i, s := range out.MCP {
		out.MCP[i].Args = append([]string{}, s.Args...)
		out.MCP[i].Env = masked(s.Env)
		out.MCP[i].Headers = masked(s.Headers)
	}
	out.Telemetry.Headers = masked(f.Telemetry.Headers)
	out.Telemetry.DisabledMetrics = append([]string{}, f.Telemetry.DisabledMetrics...)
	return out
}

func masked(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k := range m {
		out[k] = Mask
	}
	return out
}
