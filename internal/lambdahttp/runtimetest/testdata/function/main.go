// The function the tests of runtimetest build and invoke: no HTTP.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	if os.Getenv("FAIL_AT_START") != "" {
		fmt.Println("cannot start")
		os.Exit(3)
	}
	if os.Getenv("HOLD") != "" {
		time.Sleep(time.Hour)
	}
	lambda.Start(func(event map[string]json.RawMessage) (any, error) {
		if message, ok := event["fail"]; ok {
			return nil, errors.New(string(message))
		}
		if _, ok := event["exit"]; ok {
			os.Exit(9)
		}
		return event["answer"], nil
	})
}
