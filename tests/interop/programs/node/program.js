// The Node client as a program: commands on standard input, an answer a line.
// programs/README.md lists the commands.
//
//   node program.js ENDPOINT [CA [KEEP_ALIVE_S]]
import {readFileSync} from 'node:fs';
import {createInterface} from 'node:readline';
import {setTimeout as sleep} from 'node:timers/promises';
import {PubSub, v1} from '@google-cloud/pubsub';
import gax from 'google-gax';

const PATIENCE_MS = 60_000;
const [endpoint, ca, keepAlive] = process.argv.slice(2);
const projectId = 'interop';

// By themselves clients take the key file that the environment names, and the system's authorities.
const hasKeyFile = Boolean(process.env.GOOGLE_APPLICATION_CREDENTIALS);
const options = {projectId, apiEndpoint: endpoint};
if (hasKeyFile) {
  options.emulatorMode = false;
} else if (ca) {
  options.emulatorMode = false;
  options.sslCreds = gax.grpc.credentials.createSsl(readFileSync(ca));
}
if (keepAlive) {
  options['grpc.keepalive_time_ms'] = Number(keepAlive) * 1000;
  options['grpc.keepalive_permit_without_calls'] = 1;
}
const pubsub = new PubSub(options);
// By itself the client waits up to 60 s after an outage.
const retry = gax.createRetryOptions(
  [gax.Status.UNAVAILABLE],
  gax.createBackoffSettings(100, 1.3, 1000, PATIENCE_MS, 1, PATIENCE_MS, PATIENCE_MS),
);

/** Wait for a condition; no longer than patience lasts. */
async function until(condition) {
  const end = Date.now() + PATIENCE_MS;
  while (!condition() && Date.now() < end) await sleep(5);
}

/** Messages published and received at the same time, and what became of them. */
class Flow {
  constructor({topic, subscription, size, ahead}) {
    this.topic = pubsub.topic(topic, {gaxOpts: {retry}});
    this.data = Buffer.alloc(size, '.');
    this.ahead = ahead;
    this.begun = 0;
    this.published = new Set();
    this.received = new Set();
    // By message id: a publish that was sent twice may be published twice.
    this.delivered = new Set();
    this.acked = new Set();
    this.again = 0;
    this.failed = [];
    this.isEnding = false;
    this.subscription = pubsub.subscription(subscription);
    this.subscription.on('error', error => this.failed.push(String(error)));
    this.subscription.on('message', message => this.receive(message));
    this.publishing = this.run();
  }

  async run() {
    while (!this.isEnding) {
      const told = this.published.size + this.failed.length;
      if (this.begun - Math.min(told, this.received.size) >= this.ahead) {
        await sleep(1);
        continue;
      }
      const number = String(this.begun++);
      this.topic.publishMessage({data: this.data, attributes: {number}}).then(
        () => this.published.add(number),
        error => this.failed.push(String(error)),
      );
    }
  }

  receive(message) {
    const {id} = message;
    this.received.add(message.attributes.number);
    this.delivered.add(id);
    if (this.acked.has(id)) this.again++;
    message.ackWithResponse().then(
      () => this.acked.add(id),
      () => {}, // it comes again
    );
  }

  lost() {
    return [...this.published].filter(number => !this.received.has(number)).length;
  }

  count() {
    return {published: this.published.size, received: this.received.size};
  }

  async pause() {
    this.isEnding = true;
    await this.publishing;
    await until(() => this.published.size + this.failed.length === this.begun && !this.lost());
    return this.count();
  }

  async end() {
    await this.pause();
    await this.subscription.close();
    return {
      ...this.count(),
      delivered: this.delivered.size,
      acked: this.acked.size,
      lost: this.lost(),
      again: this.again,
      failed: this.failed.slice(0, 3),
    };
  }
}

let flow;

const verbs = {
  async create({topic, subscription, exactly_once: exactlyOnce}) {
    const [made] = await pubsub.createTopic(topic);
    await made.createSubscription(subscription, {
      retainAckedMessages: true,
      enableExactlyOnceDelivery: exactlyOnce,
    });
    return {};
  },

  async publish({topic, data}) {
    const publisher = pubsub.topic(topic);
    const one = text => publisher.publishMessage({data: Buffer.from(text), attributes: {client: 'node'}});
    return {ids: await Promise.all(data.map(one))};
  },

  async receive({subscription: name, count}) {
    const received = [];
    const acks = [];
    const subscription = pubsub.subscription(name);
    let failure;
    subscription.on('error', error => (failure = error));
    subscription.on('message', message => {
      acks.push(message.ackWithResponse());
      received.push(message.data.toString());
    });
    await until(() => received.length >= count || failure);
    if (failure) throw failure;
    await Promise.all(acks);
    await subscription.close();
    return {received};
  },

  async seek({subscription, time_s: time}) {
    await pubsub.subscription(subscription).seek(new Date(time * 1000));
    return {};
  },

  async flow(fields) {
    flow = new Flow(fields);
    return {};
  },

  async count() {
    return flow.count();
  },

  async pause() {
    return flow.pause();
  },

  async end() {
    return flow.end();
  },

  async look({topic}) {
    try {
      const [isThere] = await pubsub.topic(topic).exists();
      return {code: isThere ? 'OK' : 'NOT_FOUND'};
    } catch (error) {
      return {code: gax.Status[error.code]};
    }
  },

  /** The generated clients over HTTP/1.1 (`fallback`). */
  async rest({topic, subscription, data}) {
    const [servicePath, port] = endpoint.split(':');
    const authClient = hasKeyFile ? undefined : new gax.googleAuthLibrary.PassThroughClient();
    const settings = {
      fallback: true,
      protocol: ca ? 'https' : 'http',
      servicePath,
      port: Number(port),
      projectId,
      auth: new gax.GoogleAuth({authClient, projectId}),
    };
    const publisher = new v1.PublisherClient(settings);
    const subscriber = new v1.SubscriberClient(settings);
    await publisher.createTopic({name: topic});
    await subscriber.createSubscription({name: subscription, topic});
    await publisher.publish({topic, messages: [{data: Buffer.from(data)}]});
    const [pulled] = await subscriber.pull({subscription, maxMessages: 10});
    const ackIds = pulled.receivedMessages.map(one => one.ackId);
    await subscriber.acknowledge({subscription, ackIds});
    return {received: pulled.receivedMessages.map(one => Buffer.from(one.message.data).toString())};
  },
};

for await (const line of createInterface({input: process.stdin})) {
  const {do: verb, ...fields} = JSON.parse(line);
  const began = Date.now();
  let answer;
  try {
    answer = await verbs[verb](fields);
  } catch (error) {
    answer = {error: String(error?.stack ?? error)};
  }
  console.log(JSON.stringify({...answer, took_s: (Date.now() - began) / 1000}));
}
process.exit(0);
