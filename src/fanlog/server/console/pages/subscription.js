import { age, ago, all, apiOf, badge, brief, button, bytes, cell, code, count, empty, every, facts, get, h, heading, homeOf, idOf, labels, note, number, pathOf, percent, plural, post, projectOf, rate, ref, rights, rowName, section, table, time } from "../kit.js";
import { chart } from "../chart.js";
import * as live from "../live.js";
import * as acts from "./subscription_forms.js";
import { permissions } from "./permissions.js";
import { snapshotTable } from "./snapshots.js";

const BREAKERS = { closed: ["sending", "good"], open: ["stopped after failures", "bad"], "half-open": ["trying again", "warn"], off: ["sending", "good"] };

function settingsOf(found, mode) {
	const dead = found.deadLetterPolicy;
	const retry = found.retryPolicy;
	return facts([
		["Name", code(found.name)],
		["Topic", found.topic?.startsWith("projects/") && !found.topic.includes("*") ? ref(found.topic) : found.topic],
		["Delivers by", mode === "push" ? h("span", {}, "push to ", code(found.pushConfig.pushEndpoint)) : mode],
		["Ack deadline", `${found.ackDeadlineSeconds} s`],
		["Kept", `${age(found.messageRetentionDuration ?? "604800s")}${found.retainAckedMessages ? ", acknowledged messages too" : ""}`],
		["Filter", found.filter && code(found.filter)],
		["Dead letters", dead?.deadLetterTopic && h("span", {}, "to ", ref(dead.deadLetterTopic), ` after ${dead.maxDeliveryAttempts} attempts`)],
		["Retry", retry ? `after ${age(retry.minimumBackoff)} to ${age(retry.maximumBackoff)}` : "at once"],
		["Order", found.enableMessageOrdering ? "by ordering key" : "none"],
		["Exactly once", found.enableExactlyOnceDelivery && "yes"],
		["Labels", found.labels && labels(found.labels)],
	]);
}

function consumersOf(delivery) {
	const rows = delivery.consumers ?? [];
	const shown = table("Consumers", [
		rowName("Client", (row) => row.clientId || "–"),
		cell("Address", (row) => row.address ?? ""),
		cell("Principal", (row) => row.principal ?? ""),
		cell("Connected", (row) => ago(row.connectedAt)),
		number("Outstanding", (row) => `${count(row.outstanding)}${Number(row.maxOutstanding) ? ` of ${count(row.maxOutstanding)}` : ""}`),
		number("Bytes", (row) => bytes(row.outstandingBytes)),
	], rows, empty(delivery.waitingPulls ? `${plural(delivery.waitingPulls, "pull waits", "pulls wait")} for messages.` : "No consumer is connected.",
		delivery.mode === "pull" ? "Consumers with an open stream appear here. What waits stays until one comes." : "This subscription delivers by itself."));
	return [shown, delivery.consumersLeftOff ? note(`and ${count(delivery.consumersLeftOff)} more`) : null];
}

function pushOf(push) {
	const [words, tone] = BREAKERS[push.breaker] ?? [push.breaker ?? "", ""];
	return [facts([
		["Endpoint", code(push.endpoint)],
		["State", h("span", {}, badge(words, tone), push.trouble ? ` ${push.trouble}` : "")],
		["Next try", push.nextTry && time(push.nextTry)],
		["Window", `${count(push.underWay)} of ${count(push.window)} under way`],
		["Attempts", count(push.attempts)],
		["Answers", push.outcomes && h("ul", { class: "labels" }, Object.entries(push.outcomes).map(([kind, number]) => h("li", {}, `${kind}: ${count(number)}`)))],
	]), table("Last failures", [
		rowName("When", (row) => time(row.time)),
		cell("Reason", (row) => row.reason),
		number("Messages", (row) => count(row.messages ?? 1)),
		cell("First message", (row) => code(row.messageId ?? "")),
	], push.failures ?? [], note("No failures are remembered."))];
}

async function filterCard(found, signal) {
	const card = section("What the filter matched lately", h("code", { class: "block" }, found.filter));
	try {
		const tried = await post("/v1/filters:try", { filter: found.filter, topic: found.topic, last: 1000, maxSamples: 5 }, { signal });
		const looked = Number(tried.lookedAt ?? 0);
		card.append(h("p", {}, looked ? `${count(tried.matched)} of the last ${plural(looked, "message")} of the topic match (${percent(Number(tried.matched ?? 0) / looked)}).` : "The topic has no messages to try it on."),
			looked ? h("a", { href: `#/projects/${encodeURIComponent(projectOf(found.name))}/filters?topic=${encodeURIComponent(idOf(found.topic))}&filter=${encodeURIComponent(found.filter)}` }, "Look at them, or try another filter") : "");
	} catch (error) {
		if (!signal.aborted) card.append(note(error.message));
	}
	return card;
}

export async function subscription({ root, names: [id], signal, project, reload }) {
	const name = `projects/${project}/subscriptions/${id}`;
	const path = pathOf(name);
	const [found, may] = await Promise.all([get(path, {}, { signal }), rights(name, `projects/${project}`)]);
	const first = await get(`${path}/delivery`, {}, { signal });
	const snapshotNames = may("pubsub.snapshots.list") ? (await all(`${apiOf(project)}/snapshots`, "snapshots", {}, 200)).filter((one) => one.topic === found.topic).map((one) => idOf(one.name)) : [];
	const again = (act) => async () => { if (await act()) reload(); };
	const consume = may("pubsub.subscriptions.consume");
	const actions = [
		consume && h("a", { class: "button", href: `${homeOf(project)}/messages?subscription=${encodeURIComponent(id)}` }, "Browse messages"),
		may("pubsub.subscriptions.update") && button("Edit", again(() => acts.editSubscription(found, project))),
		consume && button("Seek", again(() => acts.seek(name, project, snapshotNames))),
		consume && button("Purge", again(() => acts.purge(name))),
		consume && may("pubsub.snapshots.create") && button("Snapshot", again(() => acts.snapshot(name, project))),
		may("pubsub.topics.detachSubscription") && !found.detached && button("Detach", again(() => acts.detach(name)), "quiet"),
		may("pubsub.subscriptions.delete") && button("Delete", () => acts.deleteSubscription(name, project), "danger quiet"),
	].filter(Boolean);
	root.append(heading(id, { kind: "Subscription", actions, badges: [badge(first.mode), found.detached && badge("detached", "warn"), found.filter && badge("filter")].filter(Boolean) }));
	const backlog = chart("Messages that wait", [{ key: "backlog", label: "waiting", tone: "" }], brief);
	const flow = chart("Messages a second", [{ key: "acknowledged", label: "acked", tone: "ok" }, { key: "delivered", label: "out", tone: "out" }, { key: "failed", label: "failed", tone: "bad" }], rate);
	const now = h("div", { class: "tiles slim" });
	const consumers = section("Consumers");
	const push = first.mode === "push" ? section("Push endpoint") : null;
	const counts = section("Since the server started");
	root.append(now, h("div", { class: "columns wide" }, section("Backlog", backlog.element), section("Messages a second", flow.element)),
		...[push].filter(Boolean), consumers, h("div", { class: "columns wide" }, section("Settings", settingsOf(found, first.mode)), counts));
	const delivered = (delivery) => {
		consumers.replaceChildren(consumers.firstChild, ...consumersOf(delivery).filter(Boolean));
		if (push && delivery.push) push.replaceChildren(push.firstChild, ...pushOf(delivery.push));
		const c = delivery.counts ?? {};
		counts.replaceChildren(counts.firstChild, facts([["Delivered", count(c.delivered)], ["Delivered again", count(c.redelivered)], ["Acknowledged", count(c.acknowledged), delivery.lastAcknowledged && `last ${ago(delivery.lastAcknowledged)}`],
			["Nacked", count(c.nacked)], ["Deadline passed", count(c.expired)], ["Dead letters", count(c.deadLettered)], ["Filtered out", count(c.filteredOut)], ["Lapsed", count(c.lapsed)]], "facts two"));
	};
	const draw = (sample) => {
		const kept = live.history(name);
		backlog.update(kept);
		flow.update(kept);
		const mine = sample?.subscriptions?.find((one) => one.name === name);
		if (!mine) return;
		now.replaceChildren(...[["Waiting", `${mine.backlogEstimated ? "≈ " : ""}${count(mine.backlog)}`], ["Oldest", age(mine.oldestUnackedAge)], ["Outstanding", count(mine.outstanding)],
			["Delayed", count(mine.delayed)], ["Acked", sample.hasRates ? rate(mine.acknowledged) : "–"], ["Consumers", count(mine.consumers)]]
			.map(([label, value]) => h("div", { class: "tile" }, h("p", { class: "label" }, label), h("p", { class: "value" }, value))));
	};
	delivered(first);
	draw();
	live.watch(signal, draw);
	every(3000, signal, async () => delivered(await get(`${path}/delivery`, {}, { signal })));
	if (found.filter && found.topic?.startsWith("projects/") && !found.topic.includes("*") && may("fanlog.topics.read")) root.append(await filterCard(found, signal));
	if (found.topic?.startsWith("projects/") && !found.topic.includes("*") && may("pubsub.topics.get")) {
		root.append(await snapshotTable(`${pathOf(found.topic)}/snapshots`, may, reload).catch(() => h("span")));
	}
	root.append(await permissions(name, "subscriptions", may));
}
