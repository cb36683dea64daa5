package main

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
)

// Flow publishes and receives at the same time, and remembers what became of each message.
type Flow struct {
	lock      sync.Mutex
	isEnding  bool
	begun     int
	published map[string]bool
	received  map[string]bool
	// By message id: a publish that was sent twice may be published twice.
	delivered map[string]bool
	acked     map[string]bool
	again     int
	failed    []string

	publishing chan struct{}
	receiving  chan error
	stop       context.CancelFunc
}

func beginFlow(client *pubsub.Client, command Command) *Flow {
	ctx, stop := context.WithCancel(context.Background())
	flow := &Flow{
		published:  map[string]bool{},
		received:   map[string]bool{},
		delivered:  map[string]bool{},
		acked:      map[string]bool{},
		failed:     []string{},
		publishing: make(chan struct{}),
		receiving:  make(chan error, 1),
		stop:       stop,
	}
	go flow.publish(client.Publisher(command.Topic), bytes.Repeat([]byte("."), command.Size), command.Ahead)
	go func() {
		flow.receiving <- client.Subscriber(command.Subscription).Receive(ctx, flow.receive)
	}()
	return flow
}

// next gives the number to publish next, unless enough are under way.
func (f *Flow) next(ahead int) (number string, isEnding bool) {
	f.lock.Lock()
	defer f.lock.Unlock()
	settled := min(len(f.published)+len(f.failed), len(f.received))
	if f.isEnding || f.begun-settled >= ahead {
		return "", f.isEnding
	}
	f.begun++
	return strconv.Itoa(f.begun), false
}

func (f *Flow) publish(publisher *pubsub.Publisher, data []byte, ahead int) {
	defer close(f.publishing)
	ctx := context.Background()
	var told sync.WaitGroup
	for {
		number, isEnding := f.next(ahead)
		if isEnding {
			break
		}
		if number == "" {
			time.Sleep(time.Millisecond)
			continue
		}
		attributes := map[string]string{"number": number}
		result := publisher.Publish(ctx, &pubsub.Message{Data: data, Attributes: attributes})
		told.Add(1)
		go func() {
			defer told.Done()
			_, err := result.Get(ctx)
			f.lock.Lock()
			defer f.lock.Unlock()
			if err != nil {
				f.failed = append(f.failed, err.Error())
			} else {
				f.published[number] = true
			}
		}()
	}
	told.Wait()
	publisher.Stop()
}

func (f *Flow) receive(ctx context.Context, message *pubsub.Message) {
	f.lock.Lock()
	f.received[message.Attributes["number"]] = true
	f.delivered[message.ID] = true
	if f.acked[message.ID] {
		f.again++
	}
	f.lock.Unlock()
	status, err := message.AckWithResult().Get(context.Background())
	if err == nil && status == pubsub.AcknowledgeStatusSuccess {
		f.lock.Lock()
		f.acked[message.ID] = true
		f.lock.Unlock()
	}
}

func (f *Flow) count() Answer {
	f.lock.Lock()
	defer f.lock.Unlock()
	return Answer{"published": len(f.published), "received": len(f.received)}
}

func (f *Flow) lost() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	lost := 0
	for number := range f.published {
		if !f.received[number] {
			lost++
		}
	}
	return lost
}

// pause ends publishing, and waits until everything published has come.
func (f *Flow) pause() Answer {
	f.lock.Lock()
	f.isEnding = true
	f.lock.Unlock()
	<-f.publishing
	for deadline := time.Now().Add(patience); f.lost() > 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	return f.count()
}

func (f *Flow) end() (Answer, error) {
	f.pause()
	f.stop()
	err := <-f.receiving
	answer := f.count()
	answer["lost"] = f.lost()
	answer["delivered"] = len(f.delivered)
	answer["acked"] = len(f.acked)
	answer["again"] = f.again
	answer["failed"] = f.failed
	return answer, err
}
