// Messages in the log, hot and cold alike, and the life of one. Nothing is leased.

import { a, badge, button, bytes, cell, code, count, cut, empty, facts, failure, form, get, go, h, heading, idOf, idsOf, inform, instant, labels, life, lifeOf, mapOf, note, number, pairsOf, plural, post, ref, refill, replaceQuery, rowName, section, show, submit, table, tell, time } from "../kit.js";
import { payload, preview } from "../payload.js";
import { publish } from "./topics.js";

const WHOLE = 10_000_000;

export function look(found, project) {
	const { message } = found;
	const place = h("div", payload(message.data, found));
	const whole = found.dataCut && button(`Load all ${bytes(found.dataBytes)}`, async () => {
		whole.disabled = true;
		try {
			const answer = await post("/v1/messages:browse", { topic: found.topic, messageId: message.messageId, maxMessages: 1, maxDataBytes: WHOLE, decode: true });
			place.replaceChildren(payload(answer.messages[0].message.data, answer.messages[0]));
			cut.hidden = true;
		} catch (error) { cut.replaceChildren(error.message); }
	}, "small");
	const cut = h("p.note", { hidden: !found.dataCut }, "This is the beginning of the data. ", whole);
	inform(`Message ${message.messageId}`,
		facts([["Topic", ref(found.topic)], ["Published", time(message.publishTime)], ["Offset", found.offset ?? "0"],
			["Ordering key", message.orderingKey, code],
			["Size", `${bytes(found.sizeBytes)}, of which data ${bytes(found.dataBytes)}`], ["Tier", found.tier === "lake" ? "the lake" : "hot"],
			["Schema revision", found.schemaRevisionId], ["Addressee", found.addressee && idOf(found.addressee)],
			["Attributes", message.attributes, labels]]),
		cut, place, a(lifeOf(message.messageId, project), "What became of it"));
}

export function messageTable(caption, messages, project, nothing, withTopic = false) {
	return table(caption, [
		rowName("Message", (row) => button(row.message.messageId, () => look(row, project), "as-link mono")),
		cell("Published", (row) => time(row.message.publishTime)),
		withTopic && cell("Topic", (row) => idOf(row.topic)),
		number("Offset", (row) => row.offset ?? "0"),
		cut("Key", (row) => row.message.orderingKey),
		cut("Attributes", (row) => pairsOf(row.message.attributes).join("  ")),
		cut("Data", (row) => preview(row.message.data), ".wide-cut"),
		number("Size", "sizeBytes", bytes),
		messages.some((row) => row.tier !== "hot") && cell("Tier", "tier"),
	], messages, nothing ?? empty("No message."));
}

const PAGE = 50;

export async function messages({ root, query, signal, project, may }) {
	const [topics, subscriptions] = await Promise.all(["topics", "subscriptions"].map((kind) => (may(`pubsub.${kind}.list`) ? idsOf(project, kind) : [])));
	const needs = (field, ...values) => (now) => values.includes(now[field]);
	const said = (name) => query.get(name) ?? "";
	const chosen = query.get("topic") ?? (query.get("subscription") ? "" : topics[0] ?? "");
	const fields = form([
		["kind", "Of a", "select", { options: ["topic", "subscription"], value: query.get("subscription") ? "subscription" : "topic" }],
		["topic", "Topic", "mono", { required: true, value: chosen, suggestions: topics, show: needs("kind", "topic") }],
		["subscription", "Subscription", "mono", { required: true, value: said("subscription"), suggestions: subscriptions, show: needs("kind", "subscription") }],
		["from", "From", "select", { value: query.get("from") ?? "newest", options: [["newest", "the newest"], ["oldest", "the oldest"], ["time", "a time"], ["offset", "an offset"], ["id", "a message"]] }],
		["time", "Time", "time", { required: true, value: said("time"), show: needs("from", "time") }],
		["offset", "Offset", "number", { min: 0, required: true, value: said("offset"), show: needs("from", "offset") }],
		["id", "Message id", "mono", { required: true, value: said("id"), show: needs("from", "id") }],
		["backwards", "Going", "select", { value: said("backwards"), options: [["", "forwards"], ["yes", "backwards"]], show: needs("from", "time", "offset", "id") }],
		["key", "Ordering key", "mono", { value: said("key"), placeholder: "any" }],
		["attribute", "Attribute", "mono", { value: said("attribute"), placeholder: "name=value" }],
		["filter", "Filter", "mono", { wide: true, value: said("filter"), placeholder: "region = eu-* AND payload.amount > 100" }],
	]);
	const result = section("Messages");
	let turn = 0;

	function asked(values) {
		const { kind, from, key, filter, attribute } = values;
		const start = { time: { time: instant(values.time) }, offset: { offset: values.offset }, id: { messageId: values.id } }[from];
		return { [kind]: `projects/${project}/${kind}s/${values[kind]}`, ...start, newestFirst: from === "newest" || (from !== "oldest" && values.backwards === "yes"),
			orderingKey: key || undefined, attributes: mapOf(attribute), filter: filter || undefined, maxMessages: PAGE, maxDataBytes: 16384, decode: true };
	}

	async function browse() {
		const mine = ++turn;
		const values = fields.values();
		const { kind, from } = values;
		const only = (name) => (from === name ? values[name] : "");
		replaceQuery({ ...values, kind: "", from: from === "newest" ? "" : from, [kind === "topic" ? "subscription" : "topic"]: "", time: only("time"), offset: only("offset"), id: only("id") });
		const found = [];
		let looked = 0;
		let body;
		try { body = asked(values); } catch (error) { refill(result, failure(error)); return; }
		const state = h("p.note", { role: "status" }, "Looking…");
		const place = h("div");
		const more = button("Look further", () => page(more.dataset.token));
		more.hidden = true;
		refill(result, state, place, h("div.pager", more));
		async function page(pageToken) {
			more.disabled = true;
			try {
				const answer = await post("/v1/messages:browse", { ...body, pageToken }, { signal });
				if (mine !== turn) return;
				found.push(...(answer.messages ?? []));
				looked += Number(answer.lookedAt ?? 0);
				more.dataset.token = answer.nextPageToken ?? "";
				more.hidden = !answer.nextPageToken;
				const goesOn = answer.nextPageToken;
				show(state, `${plural(found.length, "message")} of ${count(looked)} looked at`, goesOn && answer.lookedUntil && [", as far as ", time(answer.lookedUntil)], goesOn ? ". There is more." : looked > 0 && ". That is all.",
					Number(answer.damaged) > 0 && ` ${count(answer.damaged)} could not be read: they are damaged.`);
				show(place, messageTable("Messages", found, project, goesOn ? empty("None so far.", "A page looks at 20,000 messages at most. Look further for the next.") : empty("No message.", "Nothing here is like that, or nothing was published yet."), kind === "subscription"));
			} catch (error) {
				if (mine === turn && !signal.aborted) { show(state); show(place, failure(error)); }
			} finally { more.disabled = false; }
		}
		await page();
	}

	const id = h("input.mono", { "aria-label": "Message id", placeholder: "Message id", required: true, size: "18" });
	root.append(heading("Messages", { note: "What is in the log, whoever it was for. Looking takes nothing from anybody.",
		actions: [h("form.inline", { onsubmit: (event) => { event.preventDefault(); go(lifeOf(id.value.trim(), project)); } }, id, h("button", "Its life")),
			button("Publish", async () => {
				const { kind, topic } = fields.values();
				if (kind !== "topic" || !topic) return tell("Choose a topic first.", true);
				if (await publish(`projects/${project}/topics/${topic}`)) browse();
			}, "primary")] }));
	root.append(submit("What to look for", browse, fields.element, h("div.choices", h("button.primary", "Look"))), result);
	if (chosen || query.get("subscription")) await browse();
	else result.append(empty("No topics yet.", "Create one, and publish to it."));
}

const TONES = { ACKNOWLEDGED: "good", DEAD_LETTERED: "bad", DELAYED: "warn", OUTSTANDING: "accent", LAPSED: "warn" };
const words = (state = "") => state.toLowerCase().replace(/_/g, " ");

function standing(trace, life) {
	return h("li", h("h3", ref(trace.subscription), " ", badge(words(trace.state), TONES[trace.state])),
		facts([["Until", trace.until, time], ["Delivered", trace.deliveredAt, time], ["To client", trace.clientId], ["Failed attempts", Number(trace.failedDeliveries), count], ["Next delivery", trace.nextDelivery],
			["Waits behind", trace.behindMessageId, life], ["Waits for", trace.waitsFor], ["Dead letter", trace.letterMessageId, life], ["Expires", trace.expiresAt, time]]),
		trace.events && h("ol.events", trace.events.map((event) => h("li", time(event.time), " ", h("b", event.what), event.reason && `: ${event.reason}`))));
}

export async function message({ root, names: [id], project }) {
	const found = await get(`/v1/messages/${encodeURIComponent(id)}:trace`, { attributes: true });
	const inside = async () => {
		const { messages = [] } = await post("/v1/messages:browse", { topic: found.topic, messageId: id, maxMessages: 1, maxDataBytes: 262144, decode: true });
		if (messages[0]) look(messages[0], project);
	};
	const linked = life(project);
	const all = found.subscriptions ?? [];
	root.append(heading(`Message ${id}`, { kind: "The life of one message", actions: button("Look inside", inside, "primary"), note: found.hint }),
		section("The message", facts([["Topic", found.topic, ref], ["Published", time(found.publishTime)], ["Offset", found.offset ?? "0"], ["Size", bytes(found.sizeBytes)], ["Tier", found.tier],
			["Ordering key", found.orderingKey, code], ["Due", found.dueAt, time], ["Priority", found.priority], ["Dead letter of", found.letterOfMessageId, linked], ["It failed on", found.letterOfSubscription, ref], ["Because", found.letterReason],
			["Copy of", found.copyOfMessageId, linked], ["Attributes", found.attributes, labels]])),
		section("On each subscription", all.length ? h("ul.lives", all.map((one) => standing(one, linked))) : empty("No subscription has it.", "None was there when it was published, or it is not kept any more."),
			found.subscriptionsLeftOff && note(`and ${count(found.subscriptionsLeftOff)} more`),
			found.rememberedSince && h("p.note.below", "Events are remembered since ", time(found.rememberedSince), found.sampled ? ", of some messages only." : ".")));
}
