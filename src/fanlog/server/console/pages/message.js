// The life of one message: where it is, and what became of it on each subscription.

import { badge, button, bytes, code, count, empty, facts, get, h, heading, labels, note, post, ref, section, time } from "../kit.js";
import { lifeOf, look } from "../message_list.js";

const TONES = { ACKNOWLEDGED: "good", DEAD_LETTERED: "bad", DELAYED: "warn", OUTSTANDING: "accent", LAPSED: "warn" };
const said = (state) => (state ?? "").toLowerCase().replace(/_/g, " ");

function eventsOf(trace) {
	if (!trace.events?.length) return null;
	return h("ol", { class: "events" }, trace.events.map((event) => h("li", {}, time(event.time), " ", h("b", {}, event.what), event.reason && `: ${event.reason}`)));
}

function standing(trace, project) {
	return h("li", {}, h("h3", {}, ref(trace.subscription), " ", badge(said(trace.state), TONES[trace.state] ?? "")),
		facts([["Until", trace.until && time(trace.until)], ["Delivered", trace.deliveredAt && time(trace.deliveredAt)], ["To client", trace.clientId],
			["Failed attempts", trace.failedDeliveries && count(trace.failedDeliveries)], ["Next delivery", trace.nextDelivery],
			["Waits behind", trace.behindMessageId && h("a", { href: lifeOf(trace.behindMessageId, project) }, trace.behindMessageId)], ["Waits for", trace.waitsFor],
			["Dead letter", trace.letterMessageId && h("a", { href: lifeOf(trace.letterMessageId, project) }, trace.letterMessageId)], ["Expires", trace.expiresAt && time(trace.expiresAt)]]),
		eventsOf(trace));
}

export async function message({ root, names: [id], signal, project }) {
	const found = await get(`/v1/messages/${encodeURIComponent(id)}:trace`, { attributes: true }, { signal });
	const inside = button("Look inside", async () => {
		const { messages = [] } = await post("/v1/messages:browse", { topic: found.topic, messageId: id, maxMessages: 1, maxDataBytes: 262144, decode: true });
		if (messages[0]) look(messages[0], project);
	}, "primary");
	const letter = found.letterOfMessageId;
	root.append(heading(`Message ${id}`, { kind: "The life of one message", actions: [inside], note: found.hint }),
		section("The message", facts([["Topic", found.topic && ref(found.topic)], ["Published", time(found.publishTime)], ["Offset", found.offset ?? "0"],
			["Size", bytes(found.sizeBytes)], ["Tier", found.tier === "lake" ? "the lake" : found.tier], ["Ordering key", found.orderingKey && code(found.orderingKey)], ["Due", found.dueAt && time(found.dueAt)], ["Priority", found.priority],
			["Dead letter of", letter && h("a", { href: lifeOf(letter, project) }, letter)], ["It failed on", found.letterOfSubscription && ref(found.letterOfSubscription)], ["Because", found.letterReason],
			["Copy of", found.copyOfMessageId && h("a", { href: lifeOf(found.copyOfMessageId, project) }, found.copyOfMessageId)],
			["Attributes", found.attributes && labels(found.attributes)]])));
	const all = found.subscriptions ?? [];
	root.append(section("On each subscription", all.length ? h("ul", { class: "lives" }, all.map((one) => standing(one, project))) : empty("No subscription has it.", "None was there when it was published, or it is not kept any more."),
		found.subscriptionsLeftOff ? note(`and ${count(found.subscriptionsLeftOff)} more`) : null,
		found.rememberedSince && h("p", { class: "note below" }, "Events are remembered since ", time(found.rememberedSince), found.sampled ? ", of some messages only." : ".")));
}
