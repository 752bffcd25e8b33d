package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/lambae/lambae/internal/awsjson"
)

// rules are EventBridge's. Nobody but AWS may put events of AWS's own services, so
// the functions that rules name are invoked from here, if the rule's pattern says so.
type rules struct {
	client *awsjson.Client
	cfg    aws.Config
}

// tell invokes the targets of all rules that a task's state change matches.
func (r *rules) tell(ctx context.Context, task map[string]any) error {
	event, err := json.Marshal(map[string]any{
		"version": "0", "id": fmt.Sprint(time.Now().UnixNano()), "source": "aws.ecs", "detail-type": "ECS Task State Change",
		"account": "000000000000", "region": r.cfg.Region, "time": time.Now().UTC().Format(time.RFC3339),
		"resources": []any{task["taskArn"]}, "detail": task,
	})
	if err != nil {
		return err
	}
	var listed struct {
		Rules []struct{ Name, EventPattern string }
	}
	if err := r.call(ctx, "ListRules", struct{}{}, &listed); err != nil {
		return err
	}
	for _, rule := range listed.Rules {
		if rule.EventPattern == "" {
			continue // a schedule, which the emulator keeps
		}
		var matches struct{ Result bool }
		if err := r.call(ctx, "TestEventPattern", map[string]string{"Event": string(event), "EventPattern": rule.EventPattern}, &matches); err != nil {
			return err
		}
		if !matches.Result {
			continue
		}
		var targets struct {
			Targets []struct{ Arn string }
		}
		if err := r.call(ctx, "ListTargetsByRule", map[string]string{"Rule": rule.Name}, &targets); err != nil {
			return err
		}
		for _, target := range targets.Targets {
			if err := r.invoke(ctx, target.Arn, event); err != nil {
				return fmt.Errorf("rule %s: %w", rule.Name, err)
			}
		}
	}
	return nil
}

func (r *rules) call(ctx context.Context, operation string, in, out any) error {
	return r.client.Call(ctx, "events", "AWSEvents."+operation, in, out)
}

// invoke calls a function and waits for it, so that one that fails is noticed.
func (r *rules) invoke(ctx context.Context, function string, event []byte) error {
	url := strings.TrimSuffix(*r.cfg.BaseEndpoint, "/") + "/2015-03-31/functions/" + function[strings.LastIndex(function, ":")+1:] + "/invocations"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(event))
	if err != nil {
		return err
	}
	credentials, err := r.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(event)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), "lambda", r.cfg.Region, time.Now()); err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if failure := res.Header.Get("X-Amz-Function-Error"); res.StatusCode != http.StatusOK || failure != "" {
		return fmt.Errorf("invoke %s: %s %s", function, res.Status, failure)
	}
	return nil
}
