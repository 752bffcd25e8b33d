package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/provider"
)

// itemList is a list that has no pages.
type itemList[T any] struct {
	Items []T `json:"items"`
}

func (a *admin) listMCPServers(w http.ResponseWriter, _ *http.Request) {
	type view struct {
		Name      string `json:"name"`
		Transport string `json:"transport"`
	}
	writeJSON(w, http.StatusOK, itemList[view]{views(a.mcpServers(), func(s config.MCPServer) view {
		return view{s.Name, s.Transport}
	})})
}

func (a *admin) listProviders(w http.ResponseWriter, _ *http.Request) {
	type view struct {
		Name     string `json:"name"`
		Provider string `json:"provider"`
		Model    string `json:"model"`
		BaseURL  string `json:"base_url"`
	}
	writeJSON(w, http.StatusOK, itemList[view]{views(a.providers(), func(p provider.Info) view {
		return view{p.Name, p.Kind, p.Model, p.BaseURL}
	})})
}

// configView is the configuration with its secrets masked.
type configView struct {
	MCP struct {
		Servers []mcpServerView `json:"servers"`
	} `json:"mcp"`
	Providers struct {
		Entries []providerView `json:"entries"`
	} `json:"providers"`
	Telemetry telemetryView `json:"telemetry"`
}

type mcpServerView struct {
	Name      string            `json:"name"`
	Transport string            `json:"transport"`
	Command   *string           `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	URL       *string           `json:"url"`
	Headers   map[string]string `json:"headers"`
}

type providerView struct {
	Name       string `json:"name"`
	Provider   string `json:"provider"`
	Model      string `json:"model"`
	AuthToken  string `json:"auth_token"`
	BaseURL    string `json:"base_url"` // in effect
	MaxTokens  int    `json:"max_tokens"`
	MaxRetries int    `json:"max_retries"`
}

type telemetryView struct {
	Enabled      bool              `json:"enabled"`
	OTLPEndpoint *string           `json:"otlp_endpoint"`
	OTLPHeaders  map[string]string `json:"otlp_headers"`
	SampleRatio  float64           `json:"sample_ratio"`
	ServiceName  string            `json:"service_name"`
	Traces       struct {
		Enabled bool `json:"enabled"`
	} `json:"traces"`
	Metrics struct {
		Enabled  bool     `json:"enabled"`
		Disabled []string `json:"disabled"`
	} `json:"metrics"`
}

func (a *admin) showConfig(w http.ResponseWriter, _ *http.Request) {
	shown := a.Config.Redacted()
	retries := map[string]int{}
	for _, p := range shown.Providers {
		retries[p.Name] = p.MaxRetries
	}
	var view configView
	view.MCP.Servers = views(sortedServers(shown.MCP), func(s config.MCPServer) mcpServerView {
		return mcpServerView{s.Name, s.Transport, filled(s.Command), s.Args, s.Env, filled(s.URL), s.Headers}
	})
	view.Providers.Entries = views(a.providers(), func(p provider.Info) providerView {
		return providerView{p.Name, p.Kind, p.Model, config.Mask, p.BaseURL, p.MaxTokens, retries[p.Name]}
	})
	view.Telemetry = telemetryView{
		Enabled: shown.Telemetry.Enabled, OTLPEndpoint: filled(shown.Telemetry.OTLPEndpoint),
		OTLPHeaders: shown.Telemetry.Headers, SampleRatio: shown.Telemetry.SampleRatio, ServiceName: shown.Telemetry.ServiceName,
	}
	view.Telemetry.Traces.Enabled = !shown.Telemetry.TracesOff
	view.Telemetry.Metrics.Enabled, view.Telemetry.Metrics.Disabled = !shown.Telemetry.MetricsOff, shown.Telemetry.DisabledMetrics
	writeJSON(w, http.StatusOK, view)
}

// sandboxStatus tells, for every profile that lists sandbox images, which of
// them can be started.
func (a *admin) sandboxStatus(w http.ResponseWriter, r *http.Request) {
	type view struct {
		ProfileID string        `json:"profile_id"`
		Images    []ImageStatus `json:"images"`
	}
	list := itemList[view]{Items: []view{}}
	for cursor := ""; a.Images != nil; {
		page, err := a.Directory.ListProfiles(r.Context(), cursor, maxLimit)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		for _, p := range page.Items {
			if len(p.AvailableSandboxes) == 0 {
				continue
			}
			images, err := a.Images(r.Context(), p.AvailableSandboxes)
			if err != nil {
				a.fail(w, r, err)
				return
			}
			list.Items = append(list.Items, view{p.ID, append([]ImageStatus{}, images...)})
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	writeJSON(w, http.StatusOK, list)
}

func (a *admin) mcpServers() []config.MCPServer { return sortedServers(slices.Clone(a.Config.MCP)) }

func sortedServers(servers []config.MCPServer) []config.MCPServer {
	slices.SortFunc(servers, func(a, b config.MCPServer) int { return strings.Compare(a.Name, b.Name) })
	return servers
}

func (a *admin) providers() []provider.Info {
	return slices.SortedFunc(slices.Values(a.Providers), func(a, b provider.Info) int { return strings.Compare(a.Name, b.Name) })
}

// filled is nil for a setting that is not there.
func filled(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
