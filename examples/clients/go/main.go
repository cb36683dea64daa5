// The README's program in Go.
//
//	go mod tidy && PUBSUB_EMULATOR_HOST=127.0.0.1:8085 go run .
package main

import (
	"context"
	"fmt"
	"log"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

const (
	topic        = "projects/fanlog/topics/go-invoices"
	subscription = "projects/fanlog/subscriptions/go-ledger"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := pubsub.NewClient(ctx, "fanlog")
	check(err)
	defer client.Close()

	_, err = client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic})
	check(err)
	_, err = client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:  subscription,
		Topic: topic,
	})
	check(err)

	result := client.Publisher(topic).Publish(ctx, &pubsub.Message{
		Data:       []byte("two chairs"),
		Attributes: map[string]string{"region": "eu"},
	})
	_, err = result.Get(ctx) // durable when this returns
	check(err)

	err = client.Subscriber(subscription).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
		fmt.Printf("received %s %v\n", m.Data, m.Attributes)
		m.Ack()
		stop()
	})
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
