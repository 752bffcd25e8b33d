// store keeps a session in DynamoDB, so that another machine can go on with it.
// On one machine:
//
//	go run ./sdk/claude/examples/store -table sessions "Remember the number 42"
//
// and on another, in a folder of the same name, with the id that printed:
//
//	go run ./sdk/claude/examples/store -table sessions -resume ID "What was the number?"
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/lambae/lambae/sdk/claude"
	"github.com/lambae/lambae/sdk/claude/dynamostore"
)

func main() {
	table := flag.String("table", "claude-sessions", "the DynamoDB table; made if it is not there")
	resume := flag.String("resume", "", "the session to go on with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *table, *resume, strings.Join(flag.Args(), " ")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, table, resume, prompt string) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("find AWS credentials: %w", err)
	}
	db := dynamodb.NewFromConfig(cfg)
	if err := dynamostore.CreateTable(ctx, db, table); err != nil {
		return err
	}
	for msg, err := range claude.Query(ctx, claude.Text(prompt), &claude.Options{
		SessionStore: dynamostore.New(db, table), Resume: resume,
	}).Messages() {
		if err != nil {
			return err
		}
		switch m := msg.(type) {
		case *claude.ResultMessage:
			fmt.Printf("%s\nsession %s\n", m.Result, m.SessionID)
		case *claude.SystemMessage:
			if failure, ok := m.MirrorError(); ok {
				log.Printf("not in the table: %s: %s", failure.Key, failure.Error)
			}
		}
	}
	return nil
}
