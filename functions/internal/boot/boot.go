// Package boot reads what a deployed function needs before its first event: the
// environment, the configuration in its bundle, the table, a logger and, where
// the configuration wants it, telemetry.
//
// What is read here is cold-start time. No request is made: clients of AWS are
// built when they are first used, and a table that is missing shows with the
// first event.
package boot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/config/awssecrets"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/telemetry"
	"github.com/lambae/lambae/internal/telemetry/otlphttp"
)

// flushWithin is how long an answer's end may wait for a collector.
const flushWithin = 2 * time.Second

// Function is a process that is ready to make its [app.App].
type Function struct {
	// AWS is the configuration of clients: region, credentials, endpoint.
	AWS    aws.Config
	Logger *slog.Logger

	parts app.Parts
}

// Load reads the function's environment through lookup and logs to out. Its
// error names the variable, file or entry that is wrong.
func Load(ctx context.Context, lookup func(string) (string, bool), out io.Writer) (*Function, error) {
	env, err := config.ParseEnv(lookup)
	if err != nil {
		return nil, err
	}
	if env.Store.Table == "" {
		return nil, errors.New("BAE_STORE: a function keeps nothing on its disk; set dynamodb:<table>")
	}
	path := env.ConfigPath
	if root, ok := lookup("LAMBDA_TASK_ROOT"); ok && !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	file, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	f := &Function{Logger: slog.New(telemetry.NewLogHandler(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: env.LogLevel})))}
	for _, key := range file.Unused {
		f.Logger.Warn("nothing reads this key of the configuration", "key", key)
	}
	if f.AWS, err = awsConfig(lookup); err != nil {
		return nil, err
	}
	table, err := dynamo.Open(dynamodb.NewFromConfig(f.AWS), env.Store.Table, nil)
	if err != nil {
		return nil, err
	}
	secrets := awssecrets.New(f.config)
	f.parts = app.Parts{
		Table: table, File: file, Env: env, Logger: f.Logger, Region: f.AWS.Region, Platform: true,
		Resolve: config.NewResolver(config.ResolverOptions{
			Lookup: lookup, SecretsManager: secrets.SecretsManager, SSM: secrets.SSM,
		}).Resolve,
	}
	name, _ := lookup("AWS_LAMBDA_FUNCTION_NAME")
	f.parts.Telemetry, _, err = telemetry.Start(ctx, telemetry.Config(file.Telemetry), telemetry.Options{
		Version: app.Version, Exporters: []telemetry.Exporter{otlphttp.Exporter()}, Resolve: f.parts.Resolve,
		Logger: f.Logger, Attributes: map[string]string{"faas.name": name, "cloud.region": f.AWS.Region},
	})
	return f, err
}

// config lets clients that are built later share what is loaded.
func (f *Function) config(context.Context) (aws.Config, error) { return f.AWS, nil }

// App makes the server. Options may change its parts first, for an edge that
// only some functions link.
func (f *Function) App(options ...func(f *Function, p *app.Parts) error) (*app.App, error) {
	parts := f.parts
	for _, o := range options {
		if err := o(f, &parts); err != nil {
			return nil, err
		}
	}
	return app.New(parts)
}

// Flush sends what telemetry has recorded. An instance may be frozen as soon as
// its event is handled, for good.
func (f *Function) Flush(ctx context.Context) {
	if f.parts.Telemetry == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
	defer cancel()
	if err := f.parts.Telemetry.Flush(ctx); err != nil {
		f.Logger.Warn("telemetry not sent", "error", err)
	}
}
