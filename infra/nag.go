package main

import (
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// accept notes why a finding of cdk-nag (AwsSolutions) on a resource or below it
// is meant to be. Where a rule has several findings, one expression narrows it.
func accept(c constructs.IConstruct, rule, reason string, finding ...string) {
	suppression := &cdknag.NagPackSuppression{Id: str(rule), Reason: str(reason)}
	if len(finding) > 0 {
		applies := make([]any, len(finding))
		for i, f := range finding {
			applies[i] = &cdknag.RegexAppliesTo{Regex: str("/" + f + "/")}
		}
		suppression.AppliesTo = &applies
	}
	cdknag.NagSuppressions_AddResourceSuppressions(c, &[]*cdknag.NagPackSuppression{suppression}, jsii.Bool(true))
}
