package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/go-chi/chi/v5"
	"github.com/lambae/lambae/internal/session"
	"github.com/stretchr/testify/require"
)

// openAPI is openapi.yaml, loaded and ready to check answers against.
type openAPI struct {
	doc    *openapi3.T
	router routers.Router
}

func loadOpenAPI(t testing.TB) *openAPI {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	return &openAPI{doc, router}
}

// validateAgainstOpenAPI is [openAPI.check] for a test that checks few answers.
func validateAgainstOpenAPI(t testing.TB, req *http.Request, resp *http.Response) {
	t.Helper()
	require.NoError(t, loadOpenAPI(t).check(req, resp))
}

// check says how a real answer departs from the document: it must describe this
// status of this operation, and the body. If the answer is 2xx the request must
// fit as well. What the document does not know must be answered with a problem.
// The body of resp can be read again afterwards.
func (o *openAPI) check(req *http.Request, resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if resp.Header.Get(RequestIDHeader) == "" {
		return errors.New("the answer has no request id")
	}
	if resp.StatusCode >= 400 {
		if err := o.checkSchema("Problem", body); err != nil {
			return err
		}
	}
	route, params, err := o.router.FindRoute(req)
	if err != nil {
		if slices.Contains([]int{http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed}, resp.StatusCode) {
			return nil
		}
		return fmt.Errorf("%d for what is not in the document: %w", resp.StatusCode, err)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
	if resp.StatusCode < 300 {
		if err := checkRequest(input); err != nil {
			return err
		}
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if resp.Header.Get("Content-Type") == "application/x-ndjson" {
		output.Options.ExcludeResponseBody = true
		if err := o.checkLines(body); err != nil {
			return err
		}
	}
	output.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(req.Context(), output)
}

// checkRequest reads the body anew, for it was sent already.
func checkRequest(input *openapi3filter.RequestValidationInput) error {
	req := input.Request.Clone(input.Request.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return err
		}
		req.Body = body
		req.Header.Set("Content-Type", "application/json")
	}
	input.Request = req
	return openapi3filter.ValidateRequest(req.Context(), input)
}

func (o *openAPI) checkLines(body []byte) error {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := o.checkSchema("RPCLine", line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *openAPI) checkSchema(name string, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return o.doc.Components.Schemas[name].Value.VisitJSON(v)
}

// operationsOf lists what a router serves, as "METHOD /path".
func operationsOf(t testing.TB, routes chi.Routes) []string {
	t.Helper()
	var out []string
	require.NoError(t, chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		out = append(out, method+" "+strings.TrimSuffix(route, "/"))
		return nil
	}))
	slices.Sort(out)
	return out
}

// documentedOperations lists what openapi.yaml describes under a prefix.
func documentedOperations(t testing.TB, prefix string) []string {
	t.Helper()
	var out []string
	for path, item := range loadOpenAPI(t).doc.Paths.Map() {
		for method := range item.Operations() {
			if strings.HasPrefix(path, prefix) {
				out = append(out, method+" "+path)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestAdminRoutesAndTheirDocumentAreTheSame(t *testing.T) {
	t.Parallel()
	served := operationsOf(t, NewAdmin(AdminDeps{}).(chi.Routes))
	require.Equal(t, documentedOperations(t, "/admin/"), served)
	require.Len(t, served, 14)
}

func TestClientRoutesAndTheirDocumentAreTheSame(t *testing.T) {
	t.Parallel()
	documented := slices.DeleteFunc(documentedOperations(t, "/"), func(op string) bool { return strings.Contains(op, " /admin/") })
	require.Equal(t, documented, operationsOf(t, (&Client{}).Handler().(chi.Routes)))
}

func TestEveryAdminOperationDocumentsThatItNeedsAKey(t *testing.T) {
	t.Parallel()
	for path, item := range loadOpenAPI(t).doc.Paths.Map() {
		for method, op := range item.Operations() {
			if strings.HasPrefix(path, "/admin/") {
				require.NotNil(t, op.Responses.Status(http.StatusUnauthorized), "%s %s", method, path)
			}
		}
	}
}

// The document lists every slug that the constructors of problems make.
func TestEverySlugIsDocumented(t *testing.T) {
	t.Parallel()
	o := loadOpenAPI(t)
	for _, p := range everyProblem() {
		require.NoError(t, o.checkSchema("Problem", session.MarshalJSON(p)), p.Type)
	}
	require.Len(t, o.doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum, len(everyProblem()))
}

// The check itself must be able to fail.
func TestWrongAnswersDoNotFitTheDocument(t *testing.T) {
	t.Parallel()
	o := loadOpenAPI(t)
	const key = `{"id":"key_0123456789abcdef0123456789abcdef","name":"k","prefix":"bae_0123","profile_id":"pro_0123456789abcdef0123456789abcdef",
		"created_at":"2026-07-06T18:26:10.000Z","last_used_at":null}`
	for name, c := range map[string]struct {
		call   string
		status int
		body   string
		fits   bool
	}{
		"a page of keys":       {"GET /admin/v1/keys", 200, `{"items":[` + key + `],"next_cursor":null}`, true},
		"no cursor":            {"GET /admin/v1/keys", 200, `{"items":[` + key + `]}`, false},
		"a key with its hash":  {"GET /admin/v1/keys", 200, `{"items":[` + strings.Replace(key, "{", `{"hash":"x",`, 1) + `],"next_cursor":null}`, false},
		"a time without ms":    {"GET /admin/v1/keys", 200, `{"items":[` + strings.Replace(key, ".000Z", "Z", 1) + `],"next_cursor":null}`, false},
		"another status":       {"GET /admin/v1/keys", 202, `{"items":[],"next_cursor":null}`, false},
		"an unknown slug":      {"GET /admin/v1/keys", 400, `{"type":"oops","title":"","status":400,"detail":""}`, false},
		"a bare 404":           {"GET /admin/v1/nothing", 404, `not found`, false},
		"a problem for a 404":  {"GET /admin/v1/nothing", 404, `{"type":"not_found","title":"","status":404,"detail":""}`, true},
		"success of nothing":   {"GET /admin/v1/nothing", 200, `{}`, false},
		"a token in the clear": {"GET /admin/v1/config", 200, `{"mcp":{"servers":[]},"providers":{"entries":[{"name":"p","provider":"echo","model":"m","auth_token":"sk","base_url":"","max_tokens":1,"max_retries":0}]},"telemetry":{}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(c.call, " ")
			resp := &http.Response{
				StatusCode: c.status, Body: io.NopCloser(strings.NewReader(c.body)),
				Header: http.Header{"Content-Type": {"application/json"}, RequestIDHeader: {"req_1"}},
			}
			err := o.check(httptest.NewRequestWithContext(t.Context(), method, path, nil), resp)
			if c.fits {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
		})
	}
}
