// Create, publish, pull, acknowledge over REST, with nothing but net/http.
// go run . http://127.0.0.1:8086
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

var server = "http://127.0.0.1:8086"

// Message is what is published and received; encoding/json writes []byte as base64.
type Message struct {
	Data       []byte            `json:"data"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// post sends a request and reads its answer into `into`, unless that is nil.
func post(path string, body, into any) {
	sent, err := json.Marshal(body)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := http.Post(server+"/v1/"+path, "application/json", bytes.NewReader(sent))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	received, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	if answer.StatusCode >= 400 {
		log.Fatalf("%s: %s", path, received)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(received, into); err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) > 1 {
		server = os.Args[1]
	}
	post("topics", map[string]any{"name": "go-orders"}, nil)
	post("subscriptions", map[string]any{"name": "go-billing", "topic": "go-orders"}, nil)

	message := Message{Data: []byte("two chairs"), Attributes: map[string]string{"region": "eu"}}
	var published struct {
		MessageIDs []string `json:"message_ids"`
	}
	post("topics/go-orders:publish", map[string]any{"messages": []Message{message}}, &published)
	fmt.Println("published", published.MessageIDs[0]) // it is on disk now

	var pulled struct {
		ReceivedMessages []struct {
			AckID   string  `json:"ack_id"`
			Message Message `json:"message"`
		} `json:"received_messages"`
	}
	post("subscriptions/go-billing:pull", map[string]any{"max_messages": 10}, &pulled)
	var ackIDs []string
	for _, one := range pulled.ReceivedMessages {
		fmt.Println("received", string(one.Message.Data), one.Message.Attributes["region"])
		ackIDs = append(ackIDs, one.AckID)
	}

	post("subscriptions/go-billing:ack", map[string]any{"ack_ids": ackIDs}, nil)
	fmt.Println("acknowledged", len(ackIDs))
}
