// Create, publish, pull, acknowledge over REST, with nothing but fetch: Node 18 or newer.
// node rest.mjs http://127.0.0.1:8086

const server = process.argv[2] ?? "http://127.0.0.1:8086";

async function post(path, body) {
  const answer = await fetch(`${server}/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  return answer.status === 204 ? null : answer.json();
}

await post("topics", { name: "node-orders" });
await post("subscriptions", { name: "node-billing", topic: "node-orders" });

const data = Buffer.from("two chairs").toString("base64");
const message = { data, attributes: { region: "eu" } };
const published = await post("topics/node-orders:publish", { messages: [message] });
console.log("published", published.message_ids[0]); // it is on disk now

const pulled = await post("subscriptions/node-billing:pull", { max_messages: 10 });
for (const { message } of pulled.received_messages) {
  console.log("received", Buffer.from(message.data, "base64").toString(), message.attributes.region);
}

const ackIds = pulled.received_messages.map((received) => received.ack_id);
await post("subscriptions/node-billing:ack", { ack_ids: ackIds });
console.log("acknowledged", ackIds.length);
