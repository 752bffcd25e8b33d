// Command infra is the CDK app: everything lambae has on AWS, in one stack.
//
// Read [NewStack] first; it names each resource, and the file of that name has
// the resource and its permissions. Settings come as context ([Settings]):
//
//	cdk deploy -c lambae:stage=prod -c lambae:memory=2048
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

func main() {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	if err := synth(app); err != nil {
		fmt.Fprintf(os.Stderr, "infra: %v\n", err)
		jsii.Close()
		os.Exit(1)
	}
}

func synth(app awscdk.App) error {
	settings, err := ReadSettings(app.Node())
	if err != nil {
		return err
	}
	registry, err := ReadRegistry(settings.Config)
	if err != nil {
		return err
	}
	bundles := &Bundler{Module: "..", Out: "../.build/functions", Architecture: settings.Architecture, Config: settings.Config}
	if err := bundles.Build(); err != nil {
		return err
	}
	NewStack(app, settings, registry, bundles)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
	app.Synth(nil)
	return nil
}

// stackName is a stack's name, by which tools find it.
func stackName(stage string) string { return "lambae-" + strings.ToLower(stage) }
