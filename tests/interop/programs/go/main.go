// The Go client as a program: commands on standard input, an answer a line.
// programs/README.md lists the commands.
//
//	program ENDPOINT [CA [KEEP_ALIVE_S]]
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	apiv1 "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	patience = 60 * time.Second
	project  = "interop"
)

// Command is one line of input; each verb has some of these fields.
type Command struct {
	Do           string          `json:"do"`
	Topic        string          `json:"topic"`
	Subscription string          `json:"subscription"`
	ExactlyOnce  bool            `json:"exactly_once"`
	Data         json.RawMessage `json:"data"`
	Count        int             `json:"count"`
	TimeS        float64         `json:"time_s"`
	Size         int             `json:"size"`
	Ahead        int             `json:"ahead"`
	Service      string          `json:"service"`
	Method       string          `json:"method"`
	Request      json.RawMessage `json:"request"`
	Scope        string          `json:"scope"`
	Path         string          `json:"path"`
}

// Answer is one line of output.
type Answer map[string]any

// Program has one client, as programs do.
type Program struct {
	endpoint string
	tls      *tls.Config
	client   *pubsub.Client
	flow     *Flow
}

func newProgram(ctx context.Context, arguments []string) (*Program, error) {
	program := &Program{endpoint: arguments[0]}
	options := []option.ClientOption{option.WithEndpoint(program.endpoint), option.WithTelemetryDisabled()}
	if len(arguments) > 1 && arguments[1] != "" {
		authority, err := os.ReadFile(arguments[1])
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		program.tls = &tls.Config{RootCAs: roots}
	}
	if keyFile() == "" {
		credentials := grpc.WithTransportCredentials(program.credentials())
		options = append(options, option.WithoutAuthentication(), option.WithGRPCDialOption(credentials))
	}
	if len(arguments) > 2 {
		every, err := time.ParseDuration(arguments[2] + "s")
		if err != nil {
			return nil, err
		}
		parameters := keepalive.ClientParameters{Time: every, PermitWithoutStream: true}
		options = append(options, option.WithGRPCDialOption(grpc.WithKeepaliveParams(parameters)))
	}
	config := &pubsub.ClientConfig{TopicAdminCallOptions: &apiv1.TopicAdminCallOptions{
		Publish: []gax.CallOption{gax.WithRetry(retryer)},
	}}
	client, err := pubsub.NewClientWithConfig(ctx, project, config, options...)
	program.client = client
	return program, err
}

// keyFile is what the environment names: then the client is left to its own credentials, and to the
// system's authorities.
func keyFile() string {
	return os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
}

// retryer tries a publish again within a second: by itself the client waits up to 60 s after an outage.
func retryer() gax.Retryer {
	backoff := gax.Backoff{Initial: 100 * time.Millisecond, Max: time.Second, Multiplier: 1.3}
	return gax.OnCodes([]codes.Code{codes.Unavailable}, backoff)
}

func (p *Program) credentials() credentials.TransportCredentials {
	if p.tls == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(p.tls)
}

func (p *Program) do(ctx context.Context, command Command) (Answer, error) {
	switch command.Do {
	case "create":
		return p.create(ctx, command)
	case "publish":
		return p.publish(ctx, command)
	case "receive":
		return p.receive(ctx, command)
	case "seek":
		return p.seek(ctx, command)
	case "flow":
		p.flow = beginFlow(p.client, command)
		return Answer{}, nil
	case "count":
		return p.flow.count(), nil
	case "pause":
		return p.flow.pause(), nil
	case "end":
		return p.flow.end()
	case "rest":
		return p.rest(ctx, command)
	case "reflect":
		return p.reflect(ctx, command)
	case "look":
		return p.look(ctx, command)
	case "exchange":
		return p.exchange(ctx, command)
	}
	return nil, fmt.Errorf("no command %q", command.Do)
}

func (p *Program) create(ctx context.Context, command Command) (Answer, error) {
	if _, err := p.client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: command.Topic}); err != nil {
		return nil, err
	}
	_, err := p.client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:                      command.Subscription,
		Topic:                     command.Topic,
		RetainAckedMessages:       true,
		EnableExactlyOnceDelivery: command.ExactlyOnce,
	})
	return Answer{}, err
}

func (p *Program) publish(ctx context.Context, command Command) (Answer, error) {
	var data []string
	if err := json.Unmarshal(command.Data, &data); err != nil {
		return nil, err
	}
	publisher := p.client.Publisher(command.Topic)
	defer publisher.Stop()
	var results []*pubsub.PublishResult
	for _, one := range data {
		message := &pubsub.Message{Data: []byte(one), Attributes: map[string]string{"client": "go"}}
		results = append(results, publisher.Publish(ctx, message))
	}
	var ids []string
	for _, result := range results {
		id, err := result.Get(ctx)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return Answer{"ids": ids}, nil
}

func (p *Program) receive(ctx context.Context, command Command) (Answer, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var lock sync.Mutex
	received := []string{}
	var failure error
	confirmed := 0
	err := p.client.Subscriber(command.Subscription).Receive(ctx, func(_ context.Context, message *pubsub.Message) {
		status, err := message.AckWithResult().Get(context.Background())
		lock.Lock()
		defer lock.Unlock()
		received = append(received, string(message.Data))
		if err != nil || status != pubsub.AcknowledgeStatusSuccess {
			failure = fmt.Errorf("an ack was answered by %v: %w", status, err)
		}
		confirmed++
		if confirmed >= command.Count {
			stop()
		}
	})
	if err == nil {
		err = failure
	}
	return Answer{"received": received}, err
}

func (p *Program) seek(ctx context.Context, command Command) (Answer, error) {
	target := timestamppb.New(time.UnixMicro(int64(command.TimeS * 1e6)))
	_, err := p.client.SubscriptionAdminClient.Seek(ctx, &pubsubpb.SeekRequest{
		Subscription: command.Subscription,
		Target:       &pubsubpb.SeekRequest_Time{Time: target},
	})
	return Answer{}, err
}

func (p *Program) look(ctx context.Context, command Command) (Answer, error) {
	_, err := p.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: command.Topic})
	return Answer{"code": codeName(err)}, nil
}

// codeName is the name of a status as the API's protobuf has it.
func codeName(err error) string {
	return code.Code_name[int32(status.Code(err))]
}

// exchange has the key file's token_uri grant an access token.
func (p *Program) exchange(ctx context.Context, command Command) (Answer, error) {
	content, err := os.ReadFile(keyFile())
	if err != nil {
		return nil, err
	}
	config, err := google.JWTConfigFromJSON(content, command.Scope)
	if err != nil {
		return nil, err
	}
	token, err := config.TokenSource(ctx).Token()
	if err != nil {
		return nil, err
	}
	answer, err := config.Client(ctx).Get("https://" + p.endpoint + command.Path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return Answer{"kind": token.AccessToken[:4], "status": answer.StatusCode}, nil
}

// rest uses the generated clients over HTTP/1.1.
func (p *Program) rest(ctx context.Context, command Command) (Answer, error) {
	var data string
	if err := json.Unmarshal(command.Data, &data); err != nil {
		return nil, err
	}
	scheme := "http://"
	if p.tls != nil {
		scheme = "https://"
	}
	options := []option.ClientOption{option.WithEndpoint(scheme + p.endpoint)}
	if keyFile() == "" {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: p.tls}}
		options = append(options, option.WithHTTPClient(client))
	}
	topics, err := apiv1.NewTopicAdminRESTClient(ctx, options...)
	if err != nil {
		return nil, err
	}
	defer topics.Close()
	subscriptions, err := apiv1.NewSubscriptionAdminRESTClient(ctx, options...)
	if err != nil {
		return nil, err
	}
	defer subscriptions.Close()
	if _, err = topics.CreateTopic(ctx, &pubsubpb.Topic{Name: command.Topic}); err != nil {
		return nil, err
	}
	subscription := &pubsubpb.Subscription{Name: command.Subscription, Topic: command.Topic}
	if _, err = subscriptions.CreateSubscription(ctx, subscription); err != nil {
		return nil, err
	}
	messages := []*pubsubpb.PubsubMessage{{Data: []byte(data)}}
	publish := &pubsubpb.PublishRequest{Topic: command.Topic, Messages: messages}
	if _, err = topics.Publish(ctx, publish); err != nil {
		return nil, err
	}
	pulled, err := subscriptions.Pull(ctx, &pubsubpb.PullRequest{Subscription: command.Subscription, MaxMessages: 10})
	if err != nil {
		return nil, err
	}
	var received, ackIDs []string
	for _, one := range pulled.ReceivedMessages {
		received = append(received, string(one.Message.Data))
		ackIDs = append(ackIDs, one.AckId)
	}
	acknowledge := &pubsubpb.AcknowledgeRequest{Subscription: command.Subscription, AckIds: ackIDs}
	return Answer{"received": received}, subscriptions.Acknowledge(ctx, acknowledge)
}

func main() {
	ctx := context.Background()
	program, err := newProgram(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	output := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var command Command
		began := time.Now()
		answer, err := Answer{}, json.Unmarshal(lines.Bytes(), &command)
		if err == nil {
			answer, err = program.do(ctx, command)
		}
		if err != nil {
			answer = Answer{"error": err.Error()}
		}
		answer["took_s"] = time.Since(began).Seconds()
		output.Encode(answer)
	}
}
