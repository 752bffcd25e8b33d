package runtimetest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// RoundTrip sends a request through the function. It implements
// [http.RoundTripper], so that any client can talk to a built binary. An
// invocation that fails before its answer begins is an error.
func (r *Runtime) RoundTrip(req *http.Request) (*http.Response, error) {
	event, err := Event(req)
	if err != nil {
		return nil, err
	}
	inv := r.Invoke(event)
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := inv.Response()
		answers <- answer{resp, err}
	}()
	select {
	case a := <-answers:
		if a.resp != nil {
			a.resp.Request = req
		}
		return a.resp, a.err
	case <-req.Context().Done():
		return nil, req.Context().Err() // the invocation runs on, as on Lambda
	}
}

// Event is what a Function URL makes of a request: payload format 2.0. It reads
// and closes the body.
func Event(req *http.Request) ([]byte, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read request body: %w", err)
		}
	}
	headers := map[string]string{}
	for name, values := range req.Header {
		separator := ","
		if name == "Cookie" {
			separator = "; "
		}
		headers[strings.ToLower(name)] = strings.Join(values, separator)
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	headers["host"] = host
	if len(body) > 0 {
		headers["content-length"] = fmt.Sprint(len(body))
	}
	ip, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		ip = "127.0.0.1"
	}
	headers["x-forwarded-for"], headers["x-forwarded-proto"], headers["x-forwarded-port"] = ip, "https", "443"

	now := time.Now().UTC()
	path := req.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	id, _, _ := strings.Cut(host, ".")
	e := events.LambdaFunctionURLRequest{
		Version:        "2.0",
		RawPath:        path,
		RawQueryString: req.URL.RawQuery,
		Headers:        headers,
		RequestContext: events.LambdaFunctionURLRequestContext{
			AccountID: "anonymous", APIID: id, DomainName: host, DomainPrefix: id,
			RequestID: "7d9f1a52-0000-4000-8000-5c3a1b2c4d5e",
			Time:      now.Format("02/Jan/2006:15:04:05 -0700"), TimeEpoch: now.UnixMilli(),
			HTTP: events.LambdaFunctionURLRequestContextHTTPDescription{
				Method: methodOf(req), Path: req.URL.Path, Protocol: "HTTP/1.1", SourceIP: ip, UserAgent: req.UserAgent(),
			},
		},
	}
	if cookie := headers["cookie"]; cookie != "" {
		e.Cookies = strings.Split(cookie, "; ")
	}
	if query := req.URL.Query(); len(query) > 0 {
		e.QueryStringParameters = map[string]string{}
		for name, values := range query {
			e.QueryStringParameters[name] = strings.Join(values, ",")
		}
	}
	if e.Body = string(body); len(body) > 0 && !isText(req.Header.Get("Content-Type")) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return json.Marshal(e)
}

func methodOf(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}

// isText reports whether a Function URL passes a body of this type on as text.
func isText(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	switch t {
	case "application/json", "application/xml", "application/javascript":
		return true
	}
	return strings.HasPrefix(t, "text/")
}

// placeholder is how sample events name what each run has its own of.
const placeholder = `\{\{(\w+)\}\}`

// Fill replaces the placeholders {{name}} of a sample event. Values are keys and
// ids, which need no escapes in JSON. A placeholder without a value is an error.
func Fill(event []byte, values map[string]string) ([]byte, error) {
	var missing []string
	filled := regexp.MustCompile(placeholder).ReplaceAllFunc(event, func(m []byte) []byte {
		name := string(m[2 : len(m)-2])
		value, ok := values[name]
		if !ok {
			missing = append(missing, name)
		}
		return []byte(value)
	})
	if len(missing) > 0 {
		return nil, fmt.Errorf("placeholder {{%s}} has no value", missing[0])
	}
	return filled, nil
}
