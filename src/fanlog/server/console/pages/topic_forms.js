// Creating, changing and deleting topics, and publishing to them.

import { apiOf, ask, duration, go, homeOf, idOf, inUnits, link, mapOf, pairsOf, patch, pathOf, plural, post, put, remove } from "../kit.js";

const common = (topic) => [
	{ name: "retention", label: "Keep messages for", value: inUnits(topic?.messageRetentionDuration), placeholder: "as the server does", hint: "Like 12h or 7d. Empty: until all subscriptions have acknowledged, unless the server keeps longer." },
	{ name: "schema", label: "Schema", value: topic?.schemaSettings?.schema && idOf(topic.schemaSettings.schema), hint: "Messages that do not conform are refused." },
	{ name: "encoding", label: "Encoding of messages", type: "select", options: ["JSON", "BINARY"], value: topic?.schemaSettings?.encoding ?? "JSON", show: (now) => now.schema !== "" },
	{ name: "labels", label: "Labels", type: "textarea", mono: true, value: pairsOf(topic?.labels).join("\n"), hint: "One name=value a line." },
];

const schemaSettings = (project, values) => values.schema
	? { schema: values.schema.includes("/") ? values.schema : `projects/${project}/schemas/${values.schema}`, encoding: values.encoding } : undefined;

export const createTopic = (project) => ask({
	title: "Create a topic", label: "Create",
	fields: [{ name: "id", label: "Name", required: true, mono: true, hint: "3 to 255 letters, digits and - . _ ~ + %, the first a letter." },
		{ name: "ordering", label: "Order", type: "select", value: "key", options: [["key", "by ordering key"], ["publisher", "by publisher"], ["total", "one for all messages"], ["none", "none"]], hint: "It stays as it is for good." },
		...common()],
	act: async (values) => {
		const labels = mapOf(values.labels);
		if (values.ordering !== "key") labels["fanlog-ordering"] = values.ordering;
		const topic = await put(`${apiOf(project)}/topics/${encodeURIComponent(values.id)}`,
			{ labels, messageRetentionDuration: duration(values.retention), schemaSettings: schemaSettings(project, values) },
			{ headers: { "if-none-match": "*" } });
		go(link(topic.name));
	},
	done: "The topic is there.",
});

export const editTopic = (topic, project) => ask({
	title: `Change ${idOf(topic.name)}`, label: "Save", fields: common(topic),
	act: (values) => patch(pathOf(topic.name), {
		topic: { labels: mapOf(values.labels), messageRetentionDuration: duration(values.retention), schemaSettings: schemaSettings(project, values) },
		updateMask: "labels,messageRetentionDuration,schemaSettings",
	}),
	done: "The topic is changed.",
});

export const deleteTopic = (name, project) => ask({
	title: `Delete ${idOf(name)}?`, label: "Delete the topic", danger: true, confirmName: idOf(name),
	estimate: () => ({ act: "delete", resource: name }),
	act: async () => { await remove(pathOf(name)); go(`${homeOf(project)}/topics`); },
	done: "The topic is gone.",
});

function encoded(text) {
	const raw = new TextEncoder().encode(text);
	let binary = "";
	for (let at = 0; at < raw.length; at += 32768) binary += String.fromCharCode(...raw.subarray(at, at + 32768));
	return btoa(binary);
}

export const publish = (name) => ask({
	title: `Publish to ${idOf(name)}`, label: "Publish",
	fields: [
		{ name: "data", label: "Data", type: "textarea", rows: 7, mono: true, wide: true },
		{ name: "form", label: "The data is", type: "select", options: [["text", "text"], ["base64", "base64"]] },
		{ name: "key", label: "Ordering key", mono: true },
		{ name: "attributes", label: "Attributes", type: "textarea", mono: true, hint: "One name=value a line." },
		{ name: "times", label: "How many", type: "number", value: "1", min: 1, max: 1000, hint: "The same message so many times." },
	],
	act: async (values) => {
		const message = { attributes: mapOf(values.attributes), orderingKey: values.key || undefined,
			data: values.form === "text" ? encoded(values.data) : values.data.replace(/\s/g, "") };
		return post(`${pathOf(name)}:publish`, { messages: Array(Number(values.times) || 1).fill(message) });
	},
	done: ({ messageIds }) => (messageIds.length === 1 ? `Published as message ${messageIds[0]}.` : `${plural(messageIds.length, "message")} published.`),
});
