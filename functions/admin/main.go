// Command admin is the function behind the admin API: a Function URL with
// AWS_IAM, which has authenticated the caller before anything here runs. Its
// answers are small, so they are buffered. A schedule calls it too, to finish
// what crashed functions left.
package main

import (
	"context"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lambae/lambae/functions/internal/boot"
)

func main() { boot.Main(serve) }

func serve(f *boot.Function) error {
	a, err := f.App(boot.WithFargate)
	if err != nil {
		return err
	}
	h := newHandler(a.Traced(a.AdminHandler(nil)), func(ctx context.Context) {
		a.Sweep(ctx)
		a.Retain(ctx, time.Now())
	})
	lambda.Start(func(ctx context.Context, event event) (any, error) {
		defer f.Flush(ctx)
		return h.handle(ctx, event)
	})
	return nil
}
