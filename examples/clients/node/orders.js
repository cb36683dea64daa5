// The README's program in Node.
//
//   npm install && PUBSUB_EMULATOR_HOST=127.0.0.1:8085 node orders.js
import {PubSub} from '@google-cloud/pubsub';

const pubsub = new PubSub({projectId: 'fanlog'});
const [topic] = await pubsub.createTopic('node-invoices');
const [subscription] = await topic.createSubscription('node-ledger');

const data = Buffer.from('two chairs');
await topic.publishMessage({data, attributes: {region: 'eu'}}); // durable when this resolves

subscription.on('error', error => {
  throw error;
});
subscription.on('message', async message => {
  console.log(`received ${message.data}`, message.attributes);
  message.ack();
  await subscription.close();
  await pubsub.close();
});
