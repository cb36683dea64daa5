// Rules that the server follows by itself: alerts and schedules.

import { a, age, ago, all, apiOf, ask, asking, badge, bytes, capital, cell, code, columns, count, creating, deleting, duration, empty, every, fill, fullName, h, heading, idOf, idsOf, inProject, inUnits, labelsField, lifeOf, mapOf, note, number, patch, pathOf, plural, post, ref, rowActs, rowName, show, table, time, when } from "../kit.js";
import { encoded, textOf } from "../payload.js";

async function rulesPage({ root, signal, project, may }, kind, { note, create, columns, acts, nothing }) {
	const kinds = `${kind}s`;
	const path = `${apiOf(project)}/${kinds}`;
	const card = h("div.card.list");
	const title = capital(kinds);
	const draw = async () => show(card, table(title, [...columns, rowActs((row) => [acts(row, draw),
		may(`fanlog.${kinds}.delete`) && asking("Delete", () => deleting(kind, row.name, { lead: nothing.lost(row) }), draw, "danger quiet small")])], await all(path, kinds), empty(...nothing.there)));
	const make = () => creating(kind, create.fields, (values) => post(`${path}?${kind}Id=${encodeURIComponent(values.id)}`, create.bodyOf(values)), { lead: create.lead });
	root.append(heading(title, { note, actions: may(`fanlog.${kinds}.create`) && asking(`Create ${/^a/.test(kind) ? "an" : "a"} ${kind}`, make, draw, "primary") }), card);
	await every(3000, signal, draw);
}

const changing = (row, fields, bodyOf) => ask({ title: `Change ${idOf(row.name)}`, label: "Save", done: "Saved.", fields,
	act: (values) => {
		const [kind, body] = bodyOf(values);
		return patch(pathOf(row.name), { [kind]: body, updateMask: Object.keys(body).join(",") });
	} });

/** Of a condition: words, whether it is about a subscription, how a limit is shown, and its unit. */
const inSeconds = (value) => age(Number(value));
const CONDITIONS = {
	BACKLOG_AGE: ["the oldest message waits for longer", true, inSeconds, "seconds"], BACKLOG_MESSAGES: ["more messages wait", true, count, "messages"], CONSUMER_GONE: ["there is no consumer", true],
	DEAD_LETTERS: ["messages become dead letters", true], ENDPOINT_FAILING: ["the endpoint fails", true], PUBLISHES_REFUSED: ["publishes are refused"],
	DISK_LOW: ["less room is left on the disk", false, bytes, "bytes"], LAKE_ALARM: ["the lake is not as it should be"], ARCHIVE_LAG: ["the archive has not come further for longer", false, inSeconds, "seconds"],
};
const condition = (name) => CONDITIONS[name] ?? [name];

function alertFields(now, subscriptions) {
	const has = (part) => (values) => Boolean(condition(values.condition)[part]);
	const limits = ["seconds", "messages", "bytes"].map((unit) =>
		[unit, `Limit in ${unit}`, "number", { min: 0, required: true, value: now?.limit, show: (values) => condition(values.condition)[3] === unit }]);
	return [
		["condition", "Tell when", "select", { value: now?.condition, disabled: Boolean(now), options: Object.entries(CONDITIONS).map(([name, [words]]) => [name, words]) }],
		["subscription", "Subscription", "mono", { required: true, disabled: Boolean(now), value: now && idOf(now.subscription), suggestions: subscriptions, show: has(1) }],
		...limits,
		["clear", "It ends at", "number", { min: 0, value: now?.clear, placeholder: "a fifth within the limit", show: has(2) }],
		["minimum", "When that lasts for", "text", { value: inUnits(now?.minimumTime ?? "60s"), placeholder: "0s", hint: "Like 30s or 2min; it ends when it has been over for as long." }],
	];
}

const limitsOf = ({ condition: name, clear, minimum, ...values }) => ({ limit: values[condition(name)[3]], clear: clear || undefined, minimumTime: duration(minimum) ?? "0s" });

export async function alerts(context) {
	const { project, may } = context;
	const subscriptions = may("pubsub.subscriptions.list") ? await idsOf(project, "subscriptions") : [];
	const edit = (row) => changing(row, alertFields(row, subscriptions), (values) => ["alert", { limit: undefined, clear: undefined, ...limitsOf({ ...values, condition: row.condition }) }]);
	await rulesPage(context, "alert", {
		note: h("span", "A rule that begins or ends to hold publishes one message to ", ref(`projects/${project}/topics/fanlog.alerts`), "."),
		create: { fields: alertFields(null, subscriptions), lead: "When it begins or ends to hold, one message is published to the topic fanlog.alerts.",
			bodyOf: (values) => ({ condition: values.condition, subscription: condition(values.condition)[1] ? fullName(values.subscription, "subscriptions", project) : undefined, ...limitsOf(values) }) },
		columns: [
			rowName("Name", "name", idOf),
			cell("State", (row) => [row.holding ? badge("holds", "bad") : badge("quiet", "good"), " ", row.sinceTime && h("small", `since ${ago(row.sinceTime).replace(" ago", "")}`)]),
			cell("When", (row) => condition(row.condition)[0]),
			cell("Of", (row) => (row.subscription ? ref(row.subscription) : "the server")),
			number("Limit", (row) => row.limit && (condition(row.condition)[2] ?? count)(row.limit)),
			cell("Lasting", "minimumTime", age),
			fill("Said last", (row) => (row.lastError ? badge(row.lastError, "bad") : row.lastMessageId && a(lifeOf(row.lastMessageId, project), row.lastSentence))),
		],
		acts: (row, draw) => may("fanlog.alerts.update") && asking("Edit", () => edit(row), draw, "small"),
		nothing: { there: ["No alerts.", "An alert tells of dead letters, backlogs, endpoints that fail or a full disk by a message, which any subscription or webhook gets."],
			lost: (row) => `${row.holding ? "It holds now. " : ""}Nothing is published about that: subscriptions of fanlog.alerts do not hear of an end.` },
	});
}

function scheduleFields(now, topics, project) {
	const text = now && textOf(now.data);
	return [
		["topic", "Topic", "mono", { required: true, value: now && inProject(now.topic, project), suggestions: topics }],
		["cron", "Ticks at", "mono", { required: true, value: now?.cron, placeholder: "0 9 * * MON-FRI", hint: "Minute, hour, day, month, day of the week; or @hourly, @daily …" }],
		["timeZone", "Time zone", "text", { value: now?.timeZone, placeholder: "UTC", hint: "Like Europe/Berlin." }],
		["missed", "Of ticks that are missed, publish", "select", { options: [["SKIP", "none"], ["LATEST", "the last one"], ["ALL", "all, up to 100"]], value: now?.missed }],
		...(text === null && now ? [] : [["data", "Data", "code", { value: text }]]),
		["orderingKey", "Ordering key", "mono", { value: now?.orderingKey }],
		labelsField(now?.attributes, "attributes", "Attributes"),
	];
}

export async function schedules(context) {
	const { project, may } = context;
	const topics = may("pubsub.topics.list") ? await idsOf(project, "topics") : [];
	const bodyOf = ({ id, topic, attributes, data, ...rest }) => ({ ...rest, topic: fullName(topic, "topics", project), attributes: mapOf(attributes), ...(data !== undefined && { data: encoded(data) }) });
	const act = (row, verb, words, lead, done) => ask({ title: `${words} ${idOf(row.name)}?`, label: words, lead, done, act: () => post(`${pathOf(row.name)}:${verb}`) });
	const pause = (row) => act(row, "pause", "Pause", `Nothing is published until it is resumed: not at ${when(row.nextTickTime)}, and none of the ticks until then are made up for.`, "It is paused.");
	const resume = (row) => act(row, "resume", "Resume", "It publishes at its next tick; those that passed meanwhile are not wanted.", "It ticks again.");
	const run = (row) => act(row, "run", "Publish now", `1 message goes to ${idOf(row.topic)}, besides its ticks.`, ({ messageId }) => `Published as message ${messageId}.`);
	await rulesPage(context, "schedule", {
		note: "Messages that the server publishes at the times of a cron expression.",
		create: { fields: scheduleFields(null, topics, project), bodyOf },
		columns: [
			rowName("Name", (row) => [idOf(row.name), row.paused && [" ", badge("paused", "warn")], row.lastError && [" ", badge("failed", "bad")]]),
			cell("Topic", "topic", ref),
			cell("Ticks at", (row) => [code(row.cron), " ", h("small", row.timeZone || "UTC")]),
			cell("Next tick", (row) => (row.paused ? "–" : time(row.nextTickTime))),
			cell("Last tick", (row) => (row.lastMessageId ? a(lifeOf(row.lastMessageId, project), time(row.lastTickTime)) : "none yet")),
			number("Published", "publishedTicks"),
			number("Missed", "missedTicks"),
			fill("Last error", (row) => row.lastError && [row.lastError, " ", h("small", ago(row.lastErrorTime))]),
		],
		acts: (row, draw) => [may("fanlog.schedules.run") && asking("Publish now", () => run(row), draw, "small"),
			may("fanlog.schedules.update") && [asking("Edit", () => changing(row, scheduleFields(row, topics, project), (values) => ["schedule", bodyOf(values)]), draw, "small"),
				row.paused ? asking("Resume", () => resume(row), draw, "small") : asking("Pause", () => pause(row), draw, "small")]],
		nothing: { there: ["No schedules.", "A schedule publishes a message again and again."], lost: (row) => `It publishes nothing any more; what it published stays: ${plural(row.publishedTicks ?? 0, "message")}.` },
	});
}
