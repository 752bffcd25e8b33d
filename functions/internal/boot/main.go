package boot

import (
	"context"
	"fmt"
	"log/slog"
	"os"
)

// exitConfiguration is the exit code of a start that configuration stops.
const exitConfiguration = 2

// Main runs a function: serve gets the process [Load] made and returns only with
// an error. One line that says what is wrong goes to the log, since that is all
// that an operator sees of a function that does not start.
func Main(serve func(*Function) error) {
	f, err := Load(context.Background(), os.LookupEnv, os.Stderr)
	if err == nil {
		err = serve(f)
	}
	exit(err)
}

// MainPush is [Main] for what [LoadPush] made.
func MainPush(serve func(*Push)) {
	p, err := LoadPush(os.LookupEnv, os.Stderr)
	if err == nil {
		serve(p)
	}
	exit(err)
}

func exit(err error) {
	if err == nil {
		return
	}
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Error("the function cannot start", "error", fmt.Sprint(err))
	os.Exit(exitConfiguration)
}
