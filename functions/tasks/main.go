// Command tasks is the function behind EventBridge: it hears when a sandbox's task
// stops, so that nothing stays "running" that is not, and sweeps on a schedule.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lambae/lambae/functions/internal/boot"
)

func main() { boot.Main(serve) }

func serve(f *boot.Function) error {
	a, err := f.App(boot.WithFargate)
	if err != nil {
		return err
	}
	lambda.Start(handler{sandboxes: a.Sandboxes, sweep: a.Sweep}.handle)
	return nil
}
