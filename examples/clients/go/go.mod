module example.com/orders

go 1.26

require cloud.google.com/go/pubsub/v2 v2.8.0
