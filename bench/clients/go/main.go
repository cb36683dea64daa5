// Single publishes by Go's official gRPC stack, each with a deadline of its own.
//
// Ends with status 1 when one failed.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "arguments: endpoint topic count in-flight size")
		os.Exit(2)
	}
	count, inFlight, size := number(os.Args[3]), number(os.Args[4]), number(os.Args[5])
	err := publish(os.Args[1], os.Args[2], int64(count), inFlight, size)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}

func publish(endpoint, topic string, count int64, inFlight, size int) error {
	connection, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	publisher := pubsubpb.NewPublisherClient(connection)
	request := &pubsubpb.PublishRequest{
		Topic:    topic,
		Messages: []*pubsubpb.PubsubMessage{{Data: make([]byte, size)}},
	}
	var left atomic.Int64
	left.Store(count)
	var failure atomic.Pointer[error]
	var workers sync.WaitGroup
	for range inFlight {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for left.Add(-1) >= 0 && failure.Load() == nil {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				_, err := publisher.Publish(ctx, request)
				cancel()
				if err != nil {
					failure.Store(&err)
				}
			}
		}()
	}
	workers.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}
