// Topics, one of them, and what can be done with it.

import { age, ago, apiOf, ask, asking, badge, brief, button, cell, code, columns, count, creating, cut, deleting, duration, empty, every, facts, fullName, get, go, h, heading, idOf, inProject, inUnits, labels, labelsField, link, listPage, mapOf, note, number, oldest, onlyNew, patch, pathOf, plural, post, projectOf, put, rate, ref, refill, rights, rowName, section, table, to, waiting, will } from "../kit.js";
import { encoded } from "../payload.js";
import { chart } from "../chart.js";
import { liveTiles } from "../live.js";
import { permissions } from "./access.js";
import { createSubscription, snapshotTable } from "./subscriptions.js";

const common = (topic) => [
	["retention", "Keep messages for", "text", { value: inUnits(topic?.messageRetentionDuration), placeholder: "as the server does", hint: "Like 12h or 7d. Empty: until all have acknowledged, or as the server says." }],
	["schema", "Schema", "text", { value: inProject(topic?.schemaSettings?.schema, projectOf(topic?.name)), hint: "Messages that do not conform are refused." }],
	["encoding", "Encoding of messages", "select", { options: ["JSON", "BINARY"], value: topic?.schemaSettings?.encoding ?? "JSON", show: (now) => now.schema !== "" }],
	labelsField(topic?.labels),
];

const schemaSettings = (project, { schema, encoding }) => (schema ? { schema: fullName(schema, "schemas", project), encoding } : undefined);

const createTopic = (project) => creating("topic", [
		["ordering", "Order", "select", { value: "key", options: [["key", "by ordering key"], ["publisher", "by publisher"], ["total", "one for all messages"], ["none", "none"]], hint: "It stays as it is for good." }],
		...common()],
	async (values) => {
		const labels = mapOf(values.labels);
		if (values.ordering !== "key") labels["fanlog-ordering"] = values.ordering;
		const topic = await put(`${apiOf(project)}/topics/${encodeURIComponent(values.id)}`,
			{ labels, messageRetentionDuration: duration(values.retention), schemaSettings: schemaSettings(project, values) },
			onlyNew);
		go(link(topic.name));
	});

const editTopic = (topic, project) => ask({
	title: `Change ${idOf(topic.name)}`, label: "Save", fields: common(topic),
	act: (values) => patch(pathOf(topic.name), {
		topic: { labels: mapOf(values.labels), messageRetentionDuration: duration(values.retention), schemaSettings: schemaSettings(project, values) },
		updateMask: "labels,messageRetentionDuration,schemaSettings",
	}),
	done: "The topic is changed.",
});

export const publish = (name) => ask({
	title: `Publish to ${idOf(name)}`,
	fields: [
		["data", "Data", "code", { rows: 7, wide: true }],
		["form", "The data is", "select", { options: [["text", "text"], ["base64", "base64"]] }],
		["key", "Ordering key", "mono"],
		["attributes", "Attributes", "code", { hint: "One name=value a line." }],
		["times", "How many", "number", { value: "1", min: 1, max: 1000, hint: "The same message so many times." }],
	],
	act: async (values) => {
		const message = { attributes: mapOf(values.attributes), orderingKey: values.key || undefined,
			data: values.form === "text" ? encoded(values.data) : values.data.replace(/\s/g, "") };
		return post(`${pathOf(name)}:publish`, { messages: Array(Number(values.times) || 1).fill(message) });
	},
	done: ({ messageIds }) => (messageIds.length === 1 ? `Published as message ${messageIds[0]}.` : `${plural(messageIds.length, "message")} published.`),
});

export const topics = (context) => listPage(context, "topics", {
	note: "Publishers send messages to a topic; each of its subscriptions gets all of them.", order: "name", create: createTopic,
	nothing: ["No topics yet.", "Create one here, or publish with any Pub/Sub client that may."],
	columns: [rowName("Name", "name", ref, "name"), number("In", "published", rate, "rate"), number("Messages", "messages", count, "messages"), number("Ever published", "publishedTotal"), number("Subscriptions", "subscriptions"),
		cell("Schema", (row) => (row.schema ? ref(row.schema) : h("span.note", "none"))), cell("Created", "createTime", ago)],
});

export async function topic({ root, names: [id], signal, project, reload }) {
	const name = `projects/${project}/topics/${id}`;
	const [found, may] = await Promise.all([get(pathOf(name)), rights(name, `projects/${project}`)]);
	const can = (action) => may(`pubsub.topics.${action}`);
	const actions = [
		may("fanlog.topics.read") && h("a.button", { href: to(project, "messages", { topic: id }) }, "Browse messages"),
		can("publish") && button("Publish", () => publish(name), "primary"),
		can("update") && asking("Edit", () => editTopic(found, project), reload),
		can("delete") && asking("Delete", () => deleting("topic", name, { estimate: will("delete", name) }), () => go(to(project, "topics")), "danger quiet"),
	];
	const order = found.labels?.["fanlog-ordering"];
	root.append(heading(id, { kind: "Topic", actions, badges: [found.schemaSettings && badge("schema"), order && badge(`order: ${order}`)] }));
	const flow = chart("Messages a second", [["published", "in"]], rate);
	const now = liveTiles("topics", name, signal, [flow], (mine, rateOf) => [["In", rateOf(mine.published)], ["Messages in the log", brief(Number(mine.messages))], ["Ever published", count(mine.publishedTotal)]]);
	const schema = found.schemaSettings?.schema;
	root.append(now, columns(section("Messages a second", flow.element),
		section("Settings", facts([
			["Name", code(name)],
			["Kept", found.messageRetentionDuration ? age(found.messageRetentionDuration) : "as the server and its subscriptions say"],
			["Schema", schema && [ref(schema), ` (${found.schemaSettings.encoding})`]],
			["Order", order ?? "by ordering key"],
			["Labels", found.labels, labels],
			["State", found.state === "ACTIVE" ? undefined : found.state],
		]))));
	const subscriptions = section("Subscriptions");
	root.append(subscriptions);
	await every(4000, signal, async () => {
		const found = await get(`${apiOf(project)}/subscriptions:search`, { topic: name, orderBy: "backlog", pageSize: 100 });
		refill(subscriptions, table("Subscriptions of the topic", [
			rowName("Name", "name", ref), cell("Delivers by", "mode"), waiting(), oldest(), number("Acked", "acknowledged", rate), number("Consumers", "consumers"), cut("Filter", (row) => row.filter),
		], found.subscriptions ?? [], empty("Nobody subscribes.", "Without a retention, messages are gone at once.",
			may("pubsub.subscriptions.create") && button("Create a subscription", () => createSubscription(project, id)))));
		if (found.nextPageToken) subscriptions.append(note(`The first 100 of ${count(found.total)}.`));
	});
	if (can("get")) root.append(await snapshotTable(`${pathOf(name)}/snapshots`, may, reload));
	root.append(await permissions(name, "topics", may));
}
