// Creating, changing and deleting subscriptions, and the acts on what waits in them.

import { apiOf, ask, duration, get, go, homeOf, idOf, instant, inUnits, link, mapOf, pairsOf, patch, pathOf, plural, post, put, remove } from "../kit.js";

const settings = (now = {}) => [
	{ name: "mode", label: "Deliver by", type: "select", value: now.pushConfig?.pushEndpoint ? "push" : "pull", options: [["pull", "pull: consumers ask"], ["push", "push: it is sent to an address"]] },
	{ name: "endpoint", label: "Address", value: now.pushConfig?.pushEndpoint, placeholder: "an address with https", mono: true, required: true, show: (values) => values.mode === "push" },
	{ name: "filter", label: "Filter", value: now.filter, mono: true, wide: true, placeholder: "all messages", hint: "Messages that do not match count as acknowledged." },
	{ name: "deadline", label: "Ack deadline", value: `${now.ackDeadlineSeconds ?? 10}`, type: "number", min: 10, max: 600, hint: "Seconds until a message that was not acknowledged is delivered again." },
	{ name: "retention", label: "Keep messages for", value: inUnits(now.messageRetentionDuration ?? "604800s"), hint: "Like 12h or 7d." },
	{ name: "deadTopic", label: "Dead letter topic", value: now.deadLetterPolicy?.deadLetterTopic && idOf(now.deadLetterPolicy.deadLetterTopic), mono: true, hint: "Where a message goes that fails too often." },
	{ name: "attempts", label: "Attempts before that", type: "number", min: 5, max: 100, value: `${now.deadLetterPolicy?.maxDeliveryAttempts ?? 5}`, show: (values) => values.deadTopic !== "" },
	{ name: "minimum", label: "Wait after a failure, at least", value: inUnits(now.retryPolicy?.minimumBackoff), placeholder: "none" },
	{ name: "maximum", label: "and at most", value: inUnits(now.retryPolicy?.maximumBackoff), placeholder: "10min", show: (values) => values.minimum !== "" },
	{ name: "retain", label: "Keep acknowledged messages, to seek back to", type: "checkbox", value: now.retainAckedMessages },
	{ name: "exactly", label: "Exactly once", type: "checkbox", value: now.enableExactlyOnceDelivery },
];

function bodyOf(project, values) {
	const topic = values.deadTopic?.includes("/") ? values.deadTopic : `projects/${project}/topics/${values.deadTopic}`;
	return {
		pushConfig: values.mode === "push" ? { pushEndpoint: values.endpoint } : {},
		filter: values.filter || undefined, ackDeadlineSeconds: Number(values.deadline),
		messageRetentionDuration: duration(values.retention), retainAckedMessages: values.retain, enableExactlyOnceDelivery: values.exactly,
		deadLetterPolicy: values.deadTopic ? { deadLetterTopic: topic, maxDeliveryAttempts: Number(values.attempts) } : undefined,
		retryPolicy: values.minimum ? { minimumBackoff: duration(values.minimum), maximumBackoff: duration(values.maximum) ?? "600s" } : undefined,
		labels: mapOf(values.labels),
	};
}

const labels = (now) => ({ name: "labels", label: "Labels", type: "textarea", mono: true, wide: true, value: pairsOf(now?.labels).join("\n"), hint: "One name=value a line." });

export async function createSubscription(project, topicId = "") {
	const path = apiOf(project);
	const { topics = [] } = await get(`${path}/topics:search`, { pageSize: 200 }).catch(() => ({}));
	return ask({
		title: "Create a subscription", label: "Create", done: "The subscription is there.",
		fields: [{ name: "id", label: "Name", required: true, mono: true },
			{ name: "topic", label: "Topic", required: true, mono: true, value: topicId, suggestions: topics.map((one) => idOf(one.name)), hint: "Its id, or a pattern like orders.* that reads all topics it fits." },
			...settings(), { name: "ordering", label: "In order of ordering keys", type: "checkbox", hint: "It stays as it is for good." }, labels()],
		act: async (values) => {
			const name = `projects/${project}/subscriptions/${values.id}`;
			const pattern = values.topic.includes("*") || values.topic.includes("/");
			await put(pathOf(name), { ...bodyOf(project, values), topic: pattern ? values.topic : `projects/${project}/topics/${values.topic}`,
				enableMessageOrdering: values.ordering }, { headers: { "if-none-match": "*" } });
			go(link(name));
		},
	});
}

export const editSubscription = (now, project) => ask({
	title: `Change ${idOf(now.name)}`, label: "Save", fields: [...settings(now), labels(now)], done: "The subscription is changed.",
	act: async (values) => {
		const next = bodyOf(project, values);
		const before = { pushConfig: {}, filter: undefined, retainAckedMessages: false, enableExactlyOnceDelivery: false, labels: {}, ...now };
		if (next.pushConfig.pushEndpoint) next.pushConfig = { ...now.pushConfig, ...next.pushConfig };
		const changed = Object.keys(next).filter((key) => JSON.stringify(next[key]) !== JSON.stringify(before[key]));
		if (!changed.length) return;
		await patch(pathOf(now.name), { subscription: Object.fromEntries(changed.map((key) => [key, next[key]])), updateMask: changed.join(",") });
	},
});

const placeFields = (by) => [
	{ name: "time", label: "Time", type: "datetime-local", step: 1, required: true, show: (values) => values[by] === "time" },
	{ name: "message", label: "Message id", mono: true, required: true, show: (values) => values[by] === "message" },
];

export const seek = (name, project, snapshots) => {
	const place = ({ to, time, message, snapshot: id }) => ({
		earliest: { position: "earliest" }, now: { position: "now" }, time: { time: instant(time) }, message: { messageId: message }, snapshot: { snapshot: `projects/${project}/snapshots/${id}` },
	}[to]);
	return ask({
		title: `Seek ${idOf(name)}`, label: "Seek", danger: true,
		lead: "What is after the place is delivered again, as far as it is kept; what is before counts as acknowledged.",
		fields: [
			{ name: "to", label: "To", type: "select", options: [["earliest", "the oldest message kept"], ["now", "now: skip all that waits"], ["time", "a time"], ["message", "a message"], ["snapshot", "a snapshot"]] },
			...placeFields("to"),
			{ name: "snapshot", label: "Snapshot", mono: true, required: true, suggestions: snapshots, show: (values) => values.to === "snapshot" },
		],
		estimate: (values) => ({ act: "seek", resource: name, ...place(values) }),
		act: (values) => post(`${pathOf(name)}/seek`, place(values)),
		done: ({ reopened, acknowledged }) => `${plural(reopened ?? 0, "message")} will be delivered again, ${plural(acknowledged ?? 0, "message")} acknowledged.`,
	});
};

export const purge = (name) => {
	const before = (values) => ({ all: {}, time: { time: instant(values.time) }, message: { messageId: values.message } }[values.what]);
	return ask({
		title: `Purge ${idOf(name)}`, label: "Purge", danger: true,
		fields: [
			{ name: "what", label: "Drop", type: "select", value: "all", options: [["all", "all that waits"], ["time", "what was published before a time"], ["message", "what was published before a message"]] },
			...placeFields("what"),
		],
		estimate: (values) => ({ act: "purge", resource: name, ...before(values) }),
		act: (values) => post(`${pathOf(name)}:purge`, before(values)),
		done: ({ purged }) => `${plural(purged ?? 0, "message")} dropped.`,
	});
};

export const snapshot = (name, project) => ask({
	title: `Snapshot of ${idOf(name)}`, label: "Make the snapshot", fields: [{ name: "id", label: "Name", required: true, mono: true }],
	estimate: () => ({ act: "snapshot", resource: name }),
	act: (values) => put(`${apiOf(project)}/snapshots/${encodeURIComponent(values.id)}`, { subscription: name }),
	done: "The snapshot is made.",
});

export const detach = (name) => ask({
	title: `Detach ${idOf(name)}?`, label: "Detach", danger: true, estimate: () => ({ act: "detach", resource: name }),
	act: () => post(`${pathOf(name)}:detach`), done: "The subscription is detached.",
});

export const deleteSubscription = (name, project) => ask({
	title: `Delete ${idOf(name)}?`, label: "Delete the subscription", danger: true, confirmName: idOf(name),
	estimate: () => ({ act: "delete", resource: name }),
	act: async () => { await remove(pathOf(name)); go(`${homeOf(project)}/subscriptions`); },
	done: "The subscription is gone.",
});
