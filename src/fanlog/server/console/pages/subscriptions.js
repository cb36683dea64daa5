// Subscriptions, one of them, and what can be done with what waits in it.

import { age, ago, all, apiOf, ask, asking, badge, brief, button, bytes, cell, code, columns, count, creating, deleting, duration, empty, every, facts, fullName, get, go, h, heading, idOf, idsOf, inProject, instant, inUnits, labels, labelsField, link, listPage, mapOf, nameField, note, number, oldest, onlyNew, patch, pathOf, percent, plural, post, projectOf, put, rate, ref, refill, remove, rights, rowActs, rowName, section, table, time, to, waiting, will } from "../kit.js";
import { chart } from "../chart.js";
import { liveTiles } from "../live.js";
import { permissions } from "./access.js";

export const deleteSnapshot = (name) => ask({
	title: `Delete the snapshot ${idOf(name)}?`, danger: true,
	estimate: will("delete", name), act: () => remove(pathOf(name)), done: "The snapshot is gone.",
});

export async function snapshotTable(path, may, reload) {
	const names = await all(path, "snapshots", {}, 100);
	const found = await Promise.all(names.map((one) => (typeof one === "string" ? get(pathOf(one)).catch(() => ({ name: one })) : one)));
	return section("Snapshots", table("Snapshots", [
		rowName("Name", (row) => idOf(row.name)),
		cell("Ends", "expireTime", time),
		rowActs((row) => may("pubsub.snapshots.delete") ? button("Delete", async () => (await deleteSnapshot(row.name)) && reload(), "quiet small") : ""),
	], found, empty("No snapshots.", "A snapshot keeps what a subscription had acknowledged, to go back to.")));
}

const isPattern = (topic) => /[*#]/.test(topic);

const settings = (now = {}) => [
	["mode", "Deliver by", "select", { value: now.pushConfig?.pushEndpoint ? "push" : "pull", options: [["pull", "pull: consumers ask"], ["push", "push: it is sent to an address"]] }],
	["endpoint", "Address", "mono", { value: now.pushConfig?.pushEndpoint, placeholder: "an address with https", required: true, show: (values) => values.mode === "push" }],
	["filter", "Filter", "mono", { value: now.filter, wide: true, placeholder: "all messages", hint: "Messages that do not match count as acknowledged." }],
	["deadline", "Ack deadline", "number", { value: `${now.ackDeadlineSeconds ?? 10}`, min: 10, max: 600, hint: "Seconds until a message is delivered again." }],
	["retention", "Keep messages for", "text", { value: inUnits(now.messageRetentionDuration ?? "604800s"), hint: "Like 12h or 7d." }],
	["deadTopic", "Dead letter topic", "mono", { value: inProject(now.deadLetterPolicy?.deadLetterTopic, projectOf(now.name)), hint: "Where a message goes that fails too often." }],
	["attempts", "Attempts before that", "number", { min: 5, max: 100, value: `${now.deadLetterPolicy?.maxDeliveryAttempts ?? 5}`, show: (values) => values.deadTopic !== "" }],
	["minimum", "Wait after a failure, at least", "text", { value: inUnits(now.retryPolicy?.minimumBackoff), placeholder: "none" }],
	["maximum", "and at most", "text", { value: inUnits(now.retryPolicy?.maximumBackoff), placeholder: "10min", show: (values) => values.minimum !== "" }],
	["retain", "Keep acknowledged messages, to seek back to", "check", { value: now.retainAckedMessages }],
	["exactly", "Exactly once", "check", { value: now.enableExactlyOnceDelivery }],
];

function bodyOf(project, values) {
	return {
		pushConfig: values.mode === "push" ? { pushEndpoint: values.endpoint } : {},
		filter: values.filter || undefined, ackDeadlineSeconds: Number(values.deadline),
		messageRetentionDuration: duration(values.retention), retainAckedMessages: values.retain, enableExactlyOnceDelivery: values.exactly,
		deadLetterPolicy: values.deadTopic ? { deadLetterTopic: fullName(values.deadTopic, "topics", project), maxDeliveryAttempts: Number(values.attempts) } : undefined,
		retryPolicy: values.minimum ? { minimumBackoff: duration(values.minimum), maximumBackoff: duration(values.maximum) ?? "600s" } : undefined,
		labels: mapOf(values.labels),
	};
}

export async function createSubscription(project, topicId = "") {
	const topics = await idsOf(project, "topics").catch(() => []);
	return creating("subscription", [
		["topic", "Topic", "mono", { required: true, value: topicId, suggestions: topics, hint: "Its id, or a pattern like orders.* that reads all topics it fits." }],
		...settings(), ["ordering", "In order of ordering keys", "check", { hint: "It stays as it is for good." }], labelsField()],
		async (values) => {
			const name = `projects/${project}/subscriptions/${values.id}`;
			const topic = isPattern(values.topic) ? values.topic : fullName(values.topic, "topics", project);
			await put(pathOf(name), { ...bodyOf(project, values), topic, enableMessageOrdering: values.ordering }, onlyNew);
			go(link(name));
		});
}

const editSubscription = (now, project) => ask({
	title: `Change ${idOf(now.name)}`, label: "Save", fields: [...settings(now), labelsField(now.labels)], done: "The subscription is changed.",
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
	["time", "Time", "time", { required: true, show: (values) => values[by] === "time" }],
	["message", "Message id", "mono", { required: true, show: (values) => values[by] === "message" }],
];

const seek = (name, project, snapshots) => {
	const place = ({ to, time, message, snapshot: id }) => ({
		earliest: { position: "earliest" }, now: { position: "now" }, time: time && { time: instant(time) }, message: message && { messageId: message }, snapshot: id && { snapshot: `projects/${project}/snapshots/${id}` },
	}[to]);
	return ask({
		title: `Seek ${idOf(name)}`, danger: true,
		lead: "What is after the place is delivered again, as far as it is kept; the rest counts as acknowledged.",
		fields: [
			["to", "To", "select", { options: [["earliest", "the oldest message kept"], ["now", "now: skip all that waits"], ["time", "a time"], ["message", "a message"], ["snapshot", "a snapshot"]] }],
			...placeFields("to"),
			["snapshot", "Snapshot", "mono", { required: true, suggestions: snapshots, show: (values) => values.to === "snapshot" }],
		],
		estimate: will("seek", name, place),
		act: (values) => post(`${pathOf(name)}/seek`, place(values)),
		done: ({ reopened, acknowledged }) => `${plural(reopened ?? 0, "message")} will be delivered again, ${plural(acknowledged ?? 0, "message")} acknowledged.`,
	});
};

const purge = (name) => {
	const before = (values) => ({ all: {}, time: values.time && { time: instant(values.time) }, message: values.message && { messageId: values.message } }[values.what]);
	return ask({
		title: `Purge ${idOf(name)}`, danger: true,
		fields: [
			["what", "Drop", "select", { value: "all", options: [["all", "all that waits"], ["time", "what was published before a time"], ["message", "what was published before a message"]] }],
			...placeFields("what"),
		],
		estimate: will("purge", name, before),
		act: (values) => post(`${pathOf(name)}:purge`, before(values)),
		done: ({ purged }) => `${plural(purged ?? 0, "message")} dropped.`,
	});
};

const snapshot = (name, project) => ask({
	title: `Snapshot of ${idOf(name)}`, label: "Make the snapshot", fields: [nameField],
	estimate: will("snapshot", name),
	act: (values) => put(`${apiOf(project)}/snapshots/${encodeURIComponent(values.id)}`, { subscription: name }),
	done: "The snapshot is made.",
});

const detach = (name) => ask({
	title: `Detach ${idOf(name)}?`, danger: true, estimate: will("detach", name),
	act: () => post(`${pathOf(name)}:detach`), done: "The subscription is detached.",
});

export const subscriptions = (context) => listPage(context, "subscriptions", {
	note: "Each has its own place in the log of its topic; what it has not acknowledged waits.", order: "backlog", create: createSubscription,
	nothing: ["No subscriptions yet.", "One gets every message that is published to its topic after it was made."],
	columns: [rowName("Name", (row) => [ref(row.name), row.trouble && [" ", badge(row.trouble, "bad")], row.detached && [" ", badge("detached", "warn")]], null, "name"), cell("Topic", "topic", topicRef), cell("Delivers by", "mode", badge),
		waiting("backlog"), oldest("age"), number("Acked", "acknowledged", rate, "rate"), number("Out", "outstanding"), number("Consumers", "consumers")],
});

const hasPage = (topic = "") => topic.startsWith("projects/") && !isPattern(topic);
const topicRef = (topic) => (hasPage(topic) ? ref(topic) : topic ?? "");

const COUNTS = { delivered: "Delivered", redelivered: "Delivered again", acknowledged: "Acknowledged", nacked: "Nacked", expired: "Deadline passed", deadLettered: "Dead letters", filteredOut: "Filtered out", lapsed: "Lapsed" };
const BREAKERS = { closed: ["sending", "good"], open: ["stopped after failures", "bad"], "half-open": ["trying again", "warn"], off: ["sending", "good"] };

function settingsOf(found, mode) {
	const dead = found.deadLetterPolicy;
	const retry = found.retryPolicy;
	return facts([
		["Name", code(found.name)],
		["Topic", found.topic, topicRef],
		["Delivers by", mode === "push" ? ["push to ", code(found.pushConfig.pushEndpoint)] : mode],
		["Ack deadline", `${found.ackDeadlineSeconds} s`],
		["Kept", `${age(found.messageRetentionDuration ?? "604800s")}${found.retainAckedMessages ? ", acknowledged messages too" : ""}`],
		["Filter", found.filter, code],
		["Dead letters", dead?.deadLetterTopic && ["to ", ref(dead.deadLetterTopic), ` after ${dead.maxDeliveryAttempts} attempts`]],
		["Retry", retry ? `after ${age(retry.minimumBackoff)} to ${age(retry.maximumBackoff)}` : "at once"],
		["Order", found.enableMessageOrdering ? "by ordering key" : "none"],
		["Exactly once", found.enableExactlyOnceDelivery && "yes"],
		["Labels", found.labels, labels],
	]);
}

function consumersOf(delivery) {
	const rows = delivery.consumers ?? [];
	return [table("Consumers", [
		rowName("Client", (row) => row.clientId || "–"),
		cell("Address", "address"),
		cell("Principal", "principal"),
		cell("Connected", "connectedAt", ago),
		number("Outstanding", (row) => `${count(row.outstanding)}${Number(row.maxOutstanding) ? ` of ${count(row.maxOutstanding)}` : ""}`),
		number("Bytes", "outstandingBytes", bytes),
	], rows, empty(delivery.waitingPulls ? `${plural(delivery.waitingPulls, "pull waits", "pulls wait")} for messages.` : "No consumer is connected.",
		delivery.mode === "pull" ? "What waits stays until one comes." : "This subscription delivers by itself.")),
	delivery.consumersLeftOff && note(`and ${count(delivery.consumersLeftOff)} more`)];
}

function pushOf(push) {
	const [words, tone] = BREAKERS[push.breaker] ?? [push.breaker ?? "", ""];
	return [facts([
		["Endpoint", code(push.endpoint)],
		["State", [badge(words, tone), push.trouble && ` ${push.trouble}`]],
		["Next try", push.nextTry, time],
		["Window", `${count(push.underWay)} of ${count(push.window)} under way`],
		["Attempts", count(push.attempts)],
		["Answers", push.outcomes && h("ul.labels", Object.entries(push.outcomes).map(([kind, number]) => h("li", `${kind}: ${count(number)}`)))],
	]), table("Last failures", [
		rowName("When", "time", time),
		cell("Reason", "reason"),
		number("Messages", (row) => count(row.messages ?? 1)),
		cell("First message", "messageId", code),
	], push.failures ?? [], note("No failures are remembered."))];
}

async function filterCard(found, signal) {
	const card = section("What the filter matched lately", h("code.block", found.filter));
	try {
		const tried = await post("/v1/filters:try", { filter: found.filter, topic: found.topic, last: 1000, maxSamples: 5 }, { signal });
		const looked = Number(tried.lookedAt ?? 0);
		card.append(h("p", looked ? `${count(tried.matched)} of the last ${plural(looked, "message")} of the topic match (${percent(Number(tried.matched ?? 0) / looked)}).` : "The topic has no messages to try it on."),
			looked ? h("a", { href: to(projectOf(found.name), "filters", { topic: idOf(found.topic), filter: found.filter }) }, "Look at them, or try another filter") : "");
	} catch (error) {
		if (!signal.aborted) card.append(note(error.message));
	}
	return card;
}

export async function subscription({ root, names: [id], signal, project, reload }) {
	const name = `projects/${project}/subscriptions/${id}`;
	const path = pathOf(name);
	const [found, may] = await Promise.all([get(path), rights(name, `projects/${project}`)]);
	const first = await get(`${path}/delivery`);
	const topic = hasPage(found.topic) && found.topic;
	const snapshotNames = may("pubsub.snapshots.list") ? (await all(`${apiOf(project)}/snapshots`, "snapshots", {}, 200)).filter((one) => one.topic === found.topic).map((one) => idOf(one.name)) : [];
	const doing = (words, act, kind) => asking(words, act, reload, kind);
	const can = (action) => may(`pubsub.subscriptions.${action}`);
	const consume = can("consume");
	const actions = [
		consume && h("a.button", { href: to(project, "messages", { subscription: id }) }, "Browse messages"),
		can("update") && doing("Edit", () => editSubscription(found, project)),
		consume && doing("Seek", () => seek(name, project, snapshotNames)),
		consume && doing("Purge", () => purge(name)),
		consume && may("pubsub.snapshots.create") && doing("Snapshot", () => snapshot(name, project)),
		may("pubsub.topics.detachSubscription") && !found.detached && doing("Detach", () => detach(name), "quiet"),
		can("delete") && asking("Delete", () => deleting("subscription", name, { estimate: will("delete", name) }), () => go(to(project, "subscriptions")), "danger quiet"),
	];
	root.append(heading(id, { kind: "Subscription", actions, badges: [badge(first.mode), found.detached && badge("detached", "warn"), found.filter && badge("filter")] }));
	const backlog = chart("Messages that wait", [["backlog", "waiting"]], brief);
	const flow = chart("Messages a second", [["acknowledged", "acked", "ok"], ["delivered", "out", "out"], ["failed", "failed", "bad"]], rate);
	const now = liveTiles("subscriptions", name, signal, [backlog, flow], (mine, rateOf) => [["Waiting", `${mine.backlogEstimated ? "≈ " : ""}${count(mine.backlog)}`], ["Oldest", age(mine.oldestUnackedAge)],
		["Outstanding", count(mine.outstanding)], ["Delayed", count(mine.delayed)], ["Acked", rateOf(mine.acknowledged)], ["Consumers", count(mine.consumers)]]);
	const consumers = section("Consumers");
	const push = first.mode === "push" ? section("Push endpoint") : null;
	const counts = section("Since the server started");
	root.append(now, columns(section("Backlog", backlog.element), section("Messages a second", flow.element)), push ?? "", consumers, columns(section("Settings", settingsOf(found, first.mode)), counts));
	const delivered = (delivery) => {
		refill(consumers, consumersOf(delivery));
		if (push && delivery.push) refill(push, pushOf(delivery.push));
		const last = delivery.lastAcknowledged && `last ${ago(delivery.lastAcknowledged)}`;
		refill(counts, facts(Object.entries(COUNTS).map(([key, label]) => [label, count(delivery.counts?.[key]), key === "acknowledged" && last]), "facts two"));
	};
	delivered(first);
	every(3000, signal, async () => delivered(await get(`${path}/delivery`)));
	if (found.filter && topic && may("fanlog.topics.read")) root.append(await filterCard(found, signal));
	if (topic && may("pubsub.topics.get")) root.append(await snapshotTable(`${pathOf(topic)}/snapshots`, may, reload).catch(() => ""));
	root.append(await permissions(name, "subscriptions", may));
}
