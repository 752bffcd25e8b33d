package boot

import (
	"io"
	"log/slog"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/push/apigateway"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

// Push is what the functions around the WebSocket API are made of. They need no
// configuration file: no models and no tools.
type Push struct {
	Pusher    *apigateway.Pusher
	Directory *session.Directory
	Table     table.Table
	Logger    *slog.Logger
}

// LoadPush reads a function's environment through lookup and logs to out: BAE_STORE,
// BAE_LOG and [apigateway.EndpointVariable]. Its error names the variable that is
// wrong.
func LoadPush(lookup func(string) (string, bool), out io.Writer) (*Push, error) {
	env, err := config.ParseEnv(lookup)
	if err != nil {
		return nil, err
	}
	cfg, err := awsConfig(lookup)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: env.LogLevel}))
	pusher, directory, err := apigateway.Wire(lookup, cfg, logger)
	if err != nil {
		return nil, err
	}
	return &Push{pusher, directory, pusher.Store.Table(), logger}, nil
}
